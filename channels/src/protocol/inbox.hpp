#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/flow_table.hpp"
#include "protocol/frame.hpp"
#include "protocol/lender.hpp"
#include "protocol/limits.hpp"
#include "protocol/operation_list.hpp"
#include "protocol/outbox.hpp"

namespace tandem::protocol {

struct arrival;

/// Where the payload of one frame goes while it comes in. The reader fills `target` from `received`
/// on, or drops the bytes where it is null, which it may become at any time (a cancelled receive).
struct landing {
  frame header;
  std::byte* target = nullptr;
  std::size_t received = 0;
  operation* op = nullptr;   // the receive that is filled in place
  arrival* entry = nullptr;  // or the store for an unexpected message

  /// Of the message that these bytes are a part of.
  std::size_t whole_bytes() const noexcept {
    return op != nullptr ? op->total_bytes : header.payload_bytes;
  }
};

/// An unexpected message: an eager one with its bytes, or an announcement.
struct arrival {
  frame header;
  std::unique_ptr<std::byte[]> data;
  operation* claimed = nullptr;  // a receive came while the bytes are still landing
  bool complete = false;
  bool lost = false;  // the sender could not read it
};

/// How the chunks of an accepted message come: one after the other, or in any order over several
/// rails. Frames of every other type come in order either way.
enum class chunk_order : std::uint8_t { ascending, any };

/// The receiving half of a session, without I/O: matches messages and receives, flow by flow and in
/// order.
class inbox {
 public:
  inbox(const limits& agreed, finisher& end, chunk_order chunks)
      : limits_(agreed), end_(end), chunks_(chunks) {}

  /// Before the first frame.
  void agree(const limits& on) noexcept { limits_ = on; }
  /// Whose NICs of the peer's may write into views. Before anything is received.
  void lends_by(lender* who) noexcept { lender_ = who; }

  void post(operation& op);
  /// A view that the peer may write to stays pinned until it says that it does not.
  void cancel(operation& op, error_code reason, std::string detail = {});

  // What the peer says. False: no correct peer does this; `why` tells what.
  bool on_announce(const frame& f, std::string& why);
  bool on_withdraw(const frame& f, std::string& why);
  bool on_revoked(const frame& f, std::string& why);
  bool begin(const frame& f, landing& where, std::string& why);
  void end(landing& where);
  /// In place of both, for an eager message of which all is here: the receive that it fills, to be
  /// followed by `arrived`. Null: nothing has changed.
  operation* receiver_of(const frame& f) noexcept;
  void arrived(const frame& f);
  /// The rest of a chunk will not come here: it counts as not arrived and may begin again.
  void drop(landing& where) noexcept;

  /// The sender could not read this payload: whoever waits for it hears so. A chunk counts as not
  /// arrived, for its message will be withdrawn.
  void lose(landing& where);

  /// The rest will never come, for the peer has left: an eager message leaves no trace.
  void abandon(landing& where) noexcept;

  /// False: `next` would find nothing.
  bool may_have_next() const noexcept {
    return !answers_.empty() || settling_ || unreported_ >= much_unreported();
  }
  /// An accept, a refusal or a credit for the peer; false if there is none.
  bool next(frame& out);
  /// Eager bytes consumed on a flow, for the credit field of any frame of that flow.
  std::uint32_t credit(flow_id flow);

  /// The peer has closed: what is complete may still be received, nothing more will come.
  void peer_closed(error_code reason);
  /// No NIC of the peer can write to the view of this operation any more.
  void returned(operation& op);
  void drop_landings() noexcept;

  std::uint64_t unexpected_bytes() const noexcept { return unexpected_bytes_; }
  std::uint64_t unexpected_bytes_peak() const noexcept { return unexpected_peak_; }

  /// Any pending operation, null if there is none.
  operation* any() noexcept;
  /// Every operation, for deadlines.
  template <class Visitor>
  void for_each(Visitor visit) {
    filling_.for_each(visit);
    for (auto& [id, flow] : flows_) flow.posted.for_each(visit);
  }

 private:
  struct flow_state {
    operation_list posted;
    std::deque<std::unique_ptr<arrival>> arrived;  // claimed ones first
    std::size_t claimed = 0;
    std::uint32_t outstanding = 0;  // eager cost not yet consumed
    std::uint32_t consumed = 0;     // total, modulo 2^32
    std::uint32_t reported = 0;
    std::uint32_t announced = 0;  // open announcements
    bool owing = false;           // in owing_
  };
  struct incoming {
    enum class state : std::uint8_t { free, announced, accepted };
    std::uint64_t id = 0;
    std::uint64_t total = 0;
    std::uint64_t received = 0;
    message_note note = {};
    operation* op = nullptr;  // null: the receive was cancelled, the rest is dropped
    state at = state::free;
    std::uint32_t chunk_bytes = 0;
    operation* lent = nullptr;       // whose view the peer may write to, `op` or a cancelled one
    std::vector<bool> arrived = {};  // which chunks, where they come in any order
  };

  /// Credits ride on other frames; they go alone when so much is owed.
  std::uint32_t much_unreported() const noexcept { return limits_.flow_credit_bytes() / 4; }
  /// The peer keeps to `max_flows` without knowing which flows only this end has used.
  std::size_t most_flows_in() const noexcept { return std::size_t{2} * limits_.max_flows; }
  void accept(operation& op, flow_state& flow, incoming& message);
  bool begin_eager(const frame& f, landing& where, std::string& why);
  bool has_credit(const flow_state& flow, const frame& f) const noexcept;
  bool begin_data(const frame& f, landing& where, std::string& why);
  bool is_next(const incoming& message, const frame& f) const;
  /// The first that a frame of data brings, and one past the last. An empty message has one.
  static std::pair<std::size_t, std::size_t> chunks_of(const incoming& message,
                                                       const frame& f) noexcept;
  void end_eager(landing& where);
  void forget(landing& where) noexcept;
  void deliver(operation& op, arrival& from);
  void consumed(flow_id id, flow_state& flow, std::uint32_t cost);
  void answer(frame_type type, flow_id flow, std::uint64_t message_id);
  void refuse(const operation& by, std::uint64_t message_id, std::uint16_t flags);
  void lend(operation& op, incoming& message);
  void take_back(incoming& message);
  void truncated(operation& op, std::uint64_t message_bytes);
  void mismatched(operation& op, const message_note& note);
  incoming* find_incoming(std::uint64_t id) noexcept;
  bool set_aside(incoming& message);

  limits limits_;
  finisher& end_;
  const chunk_order chunks_;
  lender* lender_ = nullptr;
  std::vector<grant> ways_;
  flow_table<flow_state> flows_;
  operation_list filling_;          // accepted or landing receives
  std::vector<incoming> incoming_;  // by slot
  std::vector<incoming> ending_;    // whose last chunks are landing, and their slot is another's
  std::vector<landing*> landings_;
  std::deque<frame> answers_;
  std::deque<flow_id> owing_;
  std::uint32_t outstanding_ = 0;
  std::uint32_t unreported_ = 0;
  bool settling_ = false;  // what is owed goes out, all of it
  std::uint64_t unexpected_bytes_ = 0;
  std::uint64_t unexpected_peak_ = 0;
  error_code closed_;
};

}  // namespace tandem::protocol
