#pragma once

#include <memory>
#include <vector>

#include "protocol/flow_table.hpp"
#include "protocol/frame.hpp"
#include "protocol/limits.hpp"
#include "protocol/operation_list.hpp"
#include "protocol/remote_write_grants.hpp"
#include "protocol/stable_queue.hpp"

namespace tandem::protocol {

/// A frame to be written. `payload` belongs to an operation that stays valid until `sent`.
struct outgoing_frame {
  frame header;
  const_view payload;
  operation* op = nullptr;
};

/// Error text for a message and a receive whose notes differ.
constexpr std::string_view call_mismatch_text =
    "on flow {} a message matched a receive of another call";

/// Takes the results of operations; implemented by the session.
class completion_sink {
 public:
  virtual void finish(operation& op, error_code result, std::string detail = {}) = 0;
  /// Copies an unexpected message into a view that the CPU cannot access. `finish` follows, unless
  /// the copy could not start; the copier pins the view first.
  virtual void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) = 0;
  /// Removes one pin; a finished operation is reported when it has none.
  virtual void unpin(operation& op) = 0;

 protected:
  ~completion_sink() = default;
};

/// The sending half of a session, without I/O: decides which frame is sent next.
///
/// A short message starts eagerly while the receiver's credits last, every other one with an
/// announcement. Messages of a flow start in order; a flow with too many open announcements waits
/// without delaying other flows. Flows with accepted messages take turns chunk by chunk, so that a
/// long message delays those of other flows by one chunk at most; within a flow the oldest is sent
/// first.
class outbox {
 public:
  outbox(const limits& agreed, completion_sink& completions)
      : limits_(agreed), completions_(completions) {}
  /// To be called before the first frame.
  void set_limits(const limits& on) noexcept { limits_ = on; }

  void post(operation& op);
  /// Replaces `post`, `next` and `sent` where this send can go out at once as an eager message:
  /// fills in its frame. False: nothing has changed.
  bool try_send_eager(operation& op, frame& header);
  void cancel(operation& op, error_code reason);
  /// False: `next` has no frame.
  bool may_have_next() const noexcept {
    return !starts_.empty() || !round_robin_.empty() || !withdrawals_.empty();
  }
  /// The next frame, or false. Every frame returned is followed by `sent`, in order, or by
  /// `finish_all`.
  bool next(outgoing_frame& out);
  /// Extends a data frame that `next` has just returned by the chunks that follow it, as many as
  /// fit into `max_bytes`.
  void coalesce_chunks(outgoing_frame& out, std::uint64_t max_bytes);
  void sent(const outgoing_frame& out);
  /// Replaces `sent`: the payload could not be read and was not sent.
  void payload_failed(const outgoing_frame& out, error_code why, std::string detail);

  // Replies from the peer. False: a protocol violation.
  bool on_accept(const frame& f);
  bool on_refuse(const frame& f);
  bool on_credit(flow_id flow, std::uint32_t consumed_total);
  bool on_grant(const frame& f);
  bool on_revoke(const frame& f);

  /// The grant by which this lane may place a chunk directly; null: the payload has to be sent.
  const grant* grant_for(const frame& chunk, std::uint16_t lane, std::uint32_t epoch) noexcept;
  /// A NIC starts to place this chunk; ends with `sent`, or with `placement_ended` where the chunk
  /// is sent in another way.
  void placed(const frame& chunk) noexcept;
  void placement_ended(const frame& chunk);

  /// The chunk length of messages announced from here on is chosen for this number of lanes.
  void set_lane_count(std::size_t lanes) noexcept { lanes_ = lanes; }
  /// Upper bound of the next chunk's length.
  std::uint32_t upcoming_chunk_bytes() noexcept;
  /// Bytes of accepted messages that `next` has not yet returned.
  std::uint64_t accepted_bytes_left() const noexcept { return accepted_left_; }

  /// Ends every operation and drops all state. No frame may be in flight any more.
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
    operation_list waiting;               // blocked by too many open announcements
    std::uint32_t sent_cost = 0;          // eager, total, modulo 2^32
    std::uint32_t credited = 0;           // consumed by the receiver, as reported
    std::uint32_t announced = 0;          // open announcements
    bool resuming = false;                // a blocked operation is in starts_ again
    std::vector<std::uint64_t> accepted;  // messages with chunks left; the oldest is sent first
  };
  struct slot {
    operation* op = nullptr;
    flow_state* flow = nullptr;
    std::uint64_t id = 0;
    std::uint64_t given = 0;  // bytes returned by next()
    std::uint32_t chunk_bytes = 0;
    std::uint32_t chunks_left = 0;
    std::uint32_t in_flight = 0;  // frames between next() and sent()
    bool accepted = false;
    error_code cancelled;
    bool payload_failed = false;  // a chunk could not be read: `detail`
    std::string detail;
    std::vector<grant> grants;
    std::uint32_t placements = 0;  // chunks that a NIC is placing
    bool revoked = false;          // the peer waits for the revoke to be confirmed
  };

  bool start(operation& op, outgoing_frame& out);
  void start_eager(const operation& op, flow_state& flow, frame& header) noexcept;
  bool may_be_eager(const operation& op, const flow_state& flow) const noexcept;
  bool next_round_robin(outgoing_frame& out);
  slot* take_accepted(flow_state& flow) noexcept;
  void next_chunk(slot& from, outgoing_frame& out);
  slot* find_slot(std::uint64_t id) noexcept;
  std::size_t take_slot();
  void free_slot(slot& s) noexcept;
  void withdraw(slot& s, error_code reason);
  void send_revoked(flow_id flow, std::uint64_t id);
  void announcement_over(flow_state& flow);
  void resume_next(flow_state& flow);

  limits limits_;
  completion_sink& completions_;
  flow_table<flow_state> flows_;
  operation_list starts_, writing_, announced_, moving_;
  std::vector<slot> slots_;
  std::vector<std::size_t> free_slots_;
  // Flows with accepted messages, which take turns. The messages of one flow do not: the receiver
  // of the first one would have it as late as that of the last.
  stable_queue<flow_state*> round_robin_;
  stable_queue<frame> withdrawals_;  // and confirmations of revokes
  std::uint64_t accepted_left_ = 0;
  std::size_t lanes_ = 1;
  int starts_in_row_ = 0;
  std::uint64_t number_ = 0;
  std::uint32_t outstanding_ = 0;  // eager cost not yet credited, all flows
};

}  // namespace tandem::protocol
