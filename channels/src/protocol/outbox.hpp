#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "protocol/flow_table.hpp"
#include "protocol/frame.hpp"
#include "protocol/lender.hpp"
#include "protocol/limits.hpp"
#include "protocol/operation_list.hpp"

namespace tandem::protocol {

/// A frame on its way out. `payload` belongs to an operation that stays until `sent`.
struct outgoing {
  frame header;
  const_view payload;
  operation* op = nullptr;
};

/// Of a message and a receive whose notes differ.
constexpr std::string_view met_another_call =
    "on flow {} a message matched a receive of another call";

/// Ends an operation; the session passes it on to whoever carries completions.
class finisher {
 public:
  virtual void finish(operation& op, error_code result, std::string detail = {}) = 0;
  /// The bytes of a message for a view that the processor cannot touch. The operation is finished
  /// next, unless it could not even begin; whoever fills the view pins it before.
  virtual void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) = 0;
  /// One pin less: an operation that is over is told when it has none.
  virtual void unpin(operation& op) = 0;

 protected:
  ~finisher() = default;
};

/// The sending half of a session, without I/O: decides which frame leaves next.
///
/// A message starts eagerly while the receiver's credits last, else with an announcement. Starts
/// keep the order of their flow; a flow with too many open announcements waits by itself. Chunks of
/// accepted messages follow, one of each message in turn, so that a long message delays the others
/// by one chunk at most.
class outbox {
 public:
  outbox(const limits& agreed, finisher& end) : limits_(agreed), end_(end) {}
  /// Before the first frame.
  void agree(const limits& on) noexcept { limits_ = on; }

  void post(operation& op);
  /// In place of `post`, `next` and `sent`, where this send may leave before anything else and as
  /// an eager message: its frame. False: nothing has changed.
  bool leave_at_once(operation& op, frame& header);
  void cancel(operation& op, error_code reason);
  /// False: `next` would find nothing.
  bool may_have_next() const noexcept {
    return !starts_.empty() || !turns_.empty() || !withdrawals_.empty();
  }
  /// The next frame, or false. Every frame given out is followed by `sent`, in order, or by
  /// `clear`.
  bool next(outgoing& out);
  /// Makes a frame of data that `next` has just given bring the chunks behind its own, too, as many
  /// as fit into so many bytes.
  void widen(outgoing& out, std::uint64_t most_bytes);
  void sent(const outgoing& out);
  /// In place of `sent`: the payload could not be read, and has not left.
  void spoiled(const outgoing& out, error_code why, std::string detail);

  // Frames that the peer answers with. False: no correct peer sends this.
  bool on_accept(const frame& f);
  bool on_refuse(const frame& f);
  bool on_credit(flow_id flow, std::uint32_t consumed_total);
  bool on_grant(const frame& f);
  bool on_revoke(const frame& f);

  /// By which this lane may write a chunk in place; null: it has to carry it.
  const grant* way_for(const frame& chunk, std::uint16_t lane, std::uint32_t epoch) noexcept;
  /// A NIC writes this chunk in place: until it is `sent`, or `displaced`, for it goes another way.
  void placed(const frame& chunk) noexcept;
  void displaced(const frame& chunk);

  /// Messages announced from here on are cut for so many lanes.
  void cut_for(std::size_t lanes) noexcept { lanes_ = lanes; }
  /// How long the next chunk is at most.
  std::uint32_t upcoming_chunk_bytes() noexcept;
  /// Of messages that the peer waits for, what was not yet handed out.
  std::uint64_t accepted_bytes_left() const noexcept { return accepted_left_; }

  /// Ends every operation and forgets everything: no frame may be on its way out any more.
  void finish_all(error_code reason);

  /// Any pending operation, null if there is none.
  operation* any() noexcept;
  /// Every operation, for deadlines.
  template <class Visitor>
  void for_each(Visitor visit) {
    starts_.for_each(visit);
    writing_.for_each(visit);
    announced_.for_each(visit);
    moving_.for_each(visit);
    for (auto& [id, flow] : flows_) flow.waiting.for_each(visit);
  }

 private:
  struct flow_state {
    operation_list waiting;       // behind too many open announcements
    std::uint32_t sent_cost = 0;  // eager, total, modulo 2^32
    std::uint32_t credited = 0;   // of it consumed by the receiver
    std::uint32_t announced = 0;  // open announcements
    bool resuming = false;        // one that waited is in starts_ again
  };
  struct slot {
    operation* op = nullptr;
    flow_state* flow = nullptr;
    std::uint64_t id = 0;
    std::uint64_t given = 0;  // bytes handed out by next()
    std::uint32_t chunk_bytes = 0;
    std::uint32_t chunks_left = 0;
    std::uint32_t in_flight = 0;  // frames between next() and sent()
    bool accepted = false;
    error_code cancelled;
    bool spoiled = false;  // a chunk will never leave: `detail`
    std::string detail;
    std::vector<grant> ways;
    std::uint32_t placing = 0;  // chunks that a NIC writes in place
    bool revoked = false;       // the peer waits to hear that none does
  };

  bool start(operation& op, outgoing& out);
  void start_eager(const operation& op, flow_state& flow, frame& header) noexcept;
  bool may_be_eager(const operation& op, const flow_state& flow) const noexcept;
  bool next_turn(outgoing& out);
  void next_chunk(slot& from, outgoing& out);
  slot* find_slot(std::uint64_t id) noexcept;
  std::size_t take_slot();
  void free_slot(slot& s) noexcept;
  void withdraw(slot& s, error_code reason);
  void say_revoked(flow_id flow, std::uint64_t id);
  void announcement_over(flow_state& flow);
  void resume_next(flow_state& flow);

  limits limits_;
  finisher& end_;
  flow_table<flow_state> flows_;
  operation_list starts_, writing_, announced_, moving_;
  std::vector<slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::deque<std::uint64_t> turns_;  // accepted messages with chunks left
  std::deque<frame> withdrawals_;    // and words that nothing is written in place any more
  std::uint64_t accepted_left_ = 0;
  std::size_t lanes_ = 1;
  int starts_in_row_ = 0;
  std::uint64_t number_ = 0;
  std::uint32_t outstanding_ = 0;  // eager cost not yet credited, all flows
};

}  // namespace tandem::protocol
