#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <tandem/channel.hpp>
#include <tandem/detail/meter.hpp>
#include <tandem/error.hpp>

#include "protocol/inbox.hpp"
#include "protocol/outbox.hpp"

namespace tandem::protocol {

/// Names the two ranks and the rail in this end's errors.
struct identity {
  int rank = -1;
  int peer = -1;
  std::string rail;
};

/// Writes views that the CPU cannot access. Pins the operation until the copy is done, and calls
/// `fail_payload` if it fails.
class view_writer {
 public:
  virtual void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) = 0;

 protected:
  ~view_writer() = default;
};

/// One end of a channel without I/O: operations in, frames out; frames in, operations done.
///
/// The transport (a socket, shared memory) calls `next` and `sent` to write, `handle` or `begin`
/// and `end` to read, and takes finished operations with `pop_done`. The session never calls user
/// code.
class session final : private completion_sink {
 public:
  session(const limits& agreed, identity who, std::chrono::steady_clock::duration operation_timeout,
          chunk_order chunks = chunk_order::ascending);

  /// To be called before the first frame in either direction, where the peer's limits become known
  /// after the first operation.
  void set_limits(const limits& on) noexcept;
  /// Permits views of any memory kind: the transport must not access the targets of incoming
  /// payloads by the CPU, and `by` writes the views of receives that match an unexpected message.
  void set_view_writer(view_writer* by) noexcept { view_writer_ = by; }

  /// Counts messages for the metrics of the process.
  void set_meter(detail::channel_meter by) noexcept { meter_ = std::move(by); }

  void start(operation& op);
  /// Replaces `start`, `next` and `sent` for a transport that writes the frame and the view at
  /// once: a send from host memory that no other frame precedes is then complete. False: nothing
  /// has changed; call `start`.
  bool try_send_eager(operation& op, frame& header);
  /// Fails `op`; replaces `start`.
  void refuse(operation& op, const error& why);
  void cancel(operation& op);
  /// Finished operations, oldest first; null when there is none.
  operation* pop_done() noexcept { return done_.pop_front(); }
  bool has_done() const noexcept { return !done_.empty(); }
  /// Removes `op` from the finished ones: true if it completed before anyone had to wait for it.
  bool take_if_done(operation& op) noexcept;

  /// False: `next` has no frame. Cheap.
  bool may_have_next() const noexcept { return inbox_.may_have_next() || outbox_.may_have_next(); }
  bool next(outgoing_frame& out);
  /// Extends a data frame that `next` has just returned by the chunks that follow it, up to
  /// `max_bytes`, for transports that move several in one piece. @pre `max_bytes` fits 32 bits
  void coalesce_chunks(outgoing_frame& out, std::uint64_t max_bytes) {
    if (!failed_ && !peer_closed_) outbox_.coalesce_chunks(out, max_bytes);
  }
  void sent(const outgoing_frame& out) { outbox_.sent(out); }
  /// Replaces `sent`: the payload could not be read and was not sent. Its operation fails with
  /// `why`.
  void fail_payload(const outgoing_frame& out, const error& why);

  // A device that may access a view after its operation has ended pins the operation: `pop_done`
  // returns it only after the last `unpin`.
  void pin(operation& op) noexcept { ++op.pins; }
  void unpin(operation& op) override;
  /// The view of a receive could not be written; the receive is pending, or done and pinned.
  void fail_payload(operation& op, const error& why);

  // Direct placement by NICs.
  void set_remote_write_grants(remote_write_grants* who) noexcept;
  const grant* grant_for(const frame& chunk, std::uint16_t lane, std::uint32_t epoch) noexcept {
    return outbox_.grant_for(chunk, lane, epoch);
  }
  void placed(const frame& chunk) noexcept { outbox_.placed(chunk); }
  void placement_ended(const frame& chunk) { outbox_.placement_ended(chunk); }
  /// No grant for the view of a finished receive is in use any more.
  void grants_ended(operation& op) { inbox_.grants_ended(op); }

  /// A frame without payload. False: a protocol violation, which ends the session; see `violation`.
  bool handle(const frame& f);
  /// A frame with payload: `where` receives the destination and must stay valid until `end` or
  /// `fail`.
  bool begin(const frame& f, incoming_payload& where);
  void end(incoming_payload& where);
  /// Replaces both for a complete eager message: the receive whose view the caller fills before it
  /// calls `arrived`. Null: call `begin`.
  operation* match_eager(const frame& f);
  void arrived(const frame& f);
  /// The rest of the chunk will not arrive here; the chunk may be sent again elsewhere.
  void drop(incoming_payload& where) noexcept { inbox_.drop(where); }
  /// The sender could not read this payload.
  void mark_unreadable(incoming_payload& where) { inbox_.mark_unreadable(where); }
  /// The rest of the payload will never arrive: an eager message leaves no trace.
  void abandon(incoming_payload& where) noexcept { inbox_.abandon(where); }
  const std::string& violation() const noexcept { return violation_; }

  /// Fails every operation, now and later. Only the first reason counts.
  void fail(const error& reason);
  const std::optional<error>& failed() const noexcept { return failed_; }
  bool received_close() const noexcept { return peer_closed_; }
  /// No operation is pending, and none will be accepted any more.
  bool is_over() const noexcept { return failed_ || peer_closed_; }

  struct deadlines {
    operation::time_point next = operation::time_point::max();
    /// A send has timed out with a frame half written: only closing the channel frees its view.
    bool stuck = false;
  };
  /// Ends operations that are past their deadline.
  deadlines expire(operation::time_point now);

  /// Any operation that is pending or not yet reported, removed from the session; null if there is
  /// none. For an executor that is destroyed: freeing one operation may free others.
  operation* pop_any() noexcept;

  /// The chunk length of later messages is chosen for this number of lanes (`chunk_bytes_for`).
  void set_lane_count(std::size_t lanes) noexcept { outbox_.set_lane_count(lanes); }
  std::uint32_t upcoming_chunk_bytes() noexcept { return outbox_.upcoming_chunk_bytes(); }
  /// Bytes of accepted messages that `next` has not yet returned.
  std::uint64_t accepted_bytes_left() const noexcept { return outbox_.accepted_bytes_left(); }

  const limits& agreed() const noexcept { return limits_; }
  const identity& who() const noexcept { return who_; }
  channel_stats stats() const noexcept;

 private:
  void finish(operation& op, error_code result, std::string detail) override;
  void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) override;
  void reset_operation(operation& op) noexcept;
  void set_failure(operation& op, error_code result, std::string detail);
  void queue_done(operation& op);
  bool violated(std::string why);
  bool carries_credit(frame_type type) const noexcept;

  limits limits_;
  const identity who_;
  const std::chrono::steady_clock::duration timeout_;
  const chunk_order chunks_;
  outbox outbox_;
  inbox inbox_;
  operation_list pinned_;  // done, but pinned
  operation_list done_;
  view_writer* view_writer_ = nullptr;
  remote_write_grants* remote_write_grants_ = nullptr;
  std::optional<error> failed_;
  std::string violation_;
  bool peer_closed_ = false;
  channel_stats stats_;
  detail::channel_meter meter_;
};

}  // namespace tandem::protocol
