#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/flow_table.hpp"
#include "protocol/frame.hpp"
#include "protocol/limits.hpp"
#include "protocol/operation_list.hpp"
#include "protocol/outbox.hpp"
#include "protocol/remote_write_grants.hpp"

namespace tandem::protocol {

struct unexpected_message;

/// The destination of one frame's payload while it is being received. The reader writes to `target`
/// from offset `received` on. Where `target` is null, it discards the bytes; a cancelled receive
/// may set it to null at any time.
struct incoming_payload {
  frame header;
  std::byte* target = nullptr;
  std::size_t received = 0;
  operation* op = nullptr;              // the receive whose view is filled directly
  unexpected_message* entry = nullptr;  // or the buffer of an unexpected message

  /// The length of the message that this payload is a part of.
  std::size_t message_bytes() const noexcept {
    return op != nullptr ? op->total_bytes : header.payload_bytes;
  }
};

/// A message without a posted receive: an eager one with its bytes, or an announcement.
struct unexpected_message {
  frame header;
  std::unique_ptr<std::byte[]> data;
  operation* claimed = nullptr;  // a receive posted while the bytes still arrive
  bool complete = false;
  bool unreadable = false;  // the sender could not read the payload
};

/// The order in which chunks of an accepted message arrive: ascending, or any over several rails.
/// All other frames arrive in order either way.
enum class chunk_order : std::uint8_t { ascending, any };

/// The receiving half of a session, without I/O: matches messages and receives, flow by flow and in
/// order.
class inbox {
 public:
  inbox(const limits& agreed, completion_sink& completions, chunk_order chunks)
      : limits_(agreed), completions_(completions), chunks_(chunks) {}

  /// To be called before the first frame.
  void set_limits(const limits& on) noexcept { limits_ = on; }
  /// Issues grants for the peer's NICs. To be called before anything is received.
  void set_remote_write_grants(remote_write_grants* who) noexcept { remote_write_grants_ = who; }

  void post(operation& op);
  /// A view that the peer may write to stays pinned until the peer confirms that it has stopped.
  void cancel(operation& op, error_code reason, std::string detail = {});

  // Frames from the peer. False: a protocol violation; `why` holds the reason.
  bool on_announce(const frame& f, std::string& why);
  bool on_withdraw(const frame& f, std::string& why);
  bool on_revoked(const frame& f, std::string& why);
  bool begin(const frame& f, incoming_payload& where, std::string& why);
  void end(incoming_payload& where);
  /// Replaces both for a complete eager message: the posted receive that it matches, to be followed
  /// by `arrived`. Null: use `begin`; nothing has changed.
  operation* match_eager(const frame& f) noexcept;
  void arrived(const frame& f);
  /// The rest of the chunk will not arrive here: the chunk counts as not received and may be sent
  /// again.
  void drop(incoming_payload& where) noexcept;

  /// The sender could not read this payload: its receive fails. A chunk counts as not received, for
  /// its message will be withdrawn.
  void mark_unreadable(incoming_payload& where);

  /// The rest will never arrive, because the peer has closed: an eager message leaves no trace.
  void abandon(incoming_payload& where) noexcept;

  /// False: `next` has no frame.
  bool may_have_next() const noexcept {
    return !answers_.empty() || reporting_credits_ || unreported_ >= credit_report_bytes();
  }
  /// The next reply or credit frame for the peer; false if there is none.
  bool next(frame& out);
  /// Eager bytes consumed on a flow, for the credit field of any frame of that flow.
  std::uint32_t credit(flow_id flow);

  /// The peer has closed: complete messages may still be received, no more will arrive.
  void peer_closed(error_code reason);
  /// No NIC of the peer can write to the view of this operation any more.
  void grants_ended(operation& op);
  void drop_payloads() noexcept;

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
    std::deque<std::unique_ptr<unexpected_message>> arrived;  // claimed ones first
    std::size_t claimed = 0;
    std::uint32_t outstanding = 0;  // cost of eager messages not yet consumed
    std::uint32_t consumed = 0;     // total, modulo 2^32
    std::uint32_t reported = 0;
    std::uint32_t announced = 0;  // open announcements
    bool credit_pending = false;  // in pending_credits_
  };
  struct incoming_message {
    enum class state : std::uint8_t { free, announced, accepted };
    std::uint64_t id = 0;
    std::uint64_t total = 0;
    std::uint64_t received = 0;
    call_signature signature = {};
    operation* op = nullptr;  // null: the receive was cancelled, the rest is discarded
    state at = state::free;
    std::uint32_t chunk_bytes = 0;
    operation* granted = nullptr;  // whose view the peer may write to: `op`, or a cancelled receive
    std::vector<bool> arrived = {};  // by chunk, where they arrive in any order
  };

  /// Credits are piggybacked on other frames; from this amount on they are sent on their own.
  std::uint32_t credit_report_bytes() const noexcept { return limits_.flow_credit_bytes() / 4; }
  /// Twice the limit: the peer keeps to `max_flows`, but cannot know which flows only this end
  /// uses.
  std::size_t max_incoming_flows() const noexcept { return std::size_t{2} * limits_.max_flows; }
  void accept(operation& op, flow_state& flow, incoming_message& message);
  bool begin_eager(const frame& f, incoming_payload& where, std::string& why);
  bool has_credit(const flow_state& flow, const frame& f) const noexcept;
  bool begin_data(const frame& f, incoming_payload& where, std::string& why);
  bool is_next(const incoming_message& message, const frame& f) const;
  /// The first chunk of a data frame, and one past the last. An empty message has one chunk.
  static std::pair<std::size_t, std::size_t> chunks_of(const incoming_message& message,
                                                       const frame& f) noexcept;
  void end_eager(incoming_payload& where);
  void forget(incoming_payload& where) noexcept;
  void deliver(operation& op, unexpected_message& from);
  void consumed(flow_id id, flow_state& flow, std::uint32_t cost);
  void answer(frame_type type, flow_id flow, std::uint64_t message_id);
  void refuse(const operation& by, std::uint64_t message_id, std::uint16_t flags);
  void grant_writes(operation& op, incoming_message& message);
  void end_grants(incoming_message& message);
  void truncated(operation& op, std::uint64_t message_bytes);
  void mismatched(operation& op, const call_signature& signature);
  incoming_message* find_incoming(std::uint64_t id) noexcept;
  bool release_slot(incoming_message& message);

  limits limits_;
  completion_sink& completions_;
  const chunk_order chunks_;
  remote_write_grants* remote_write_grants_ = nullptr;
  std::vector<grant> grants_;
  flow_table<flow_state> flows_;
  operation_list filling_;                           // receives of accepted or arriving messages
  std::vector<incoming_message> incoming_messages_;  // by slot
  std::vector<incoming_message> ending_;  // last chunks still arriving, slot already reused
  std::vector<incoming_payload*> incoming_payloads_;
  std::deque<frame> answers_;
  std::deque<flow_id> pending_credits_;
  std::uint32_t outstanding_ = 0;
  std::uint32_t unreported_ = 0;
  bool reporting_credits_ = false;  // all pending credits are being sent
  std::uint64_t unexpected_bytes_ = 0;
  std::uint64_t unexpected_peak_ = 0;
  error_code closed_;
};

}  // namespace tandem::protocol
