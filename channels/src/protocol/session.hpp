#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <tandem/channel.hpp>
#include <tandem/error.hpp>

#include "protocol/inbox.hpp"
#include "protocol/outbox.hpp"

namespace tandem::protocol {

/// Who talks to whom over what: the words of this end's errors.
struct identity {
  int rank = -1;
  int peer = -1;
  std::string rail;
};

/// Fills views that the processor cannot touch. Pins the operation until that is done, and spoils
/// it where it fails.
class filler {
 public:
  virtual void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) = 0;

 protected:
  ~filler() = default;
};

/// One end of a channel without I/O: operations in, frames out; frames in, operations done.
///
/// Whoever carries it out (a socket, memory) calls `next`/`sent` to write, `handle` or
/// `begin`/`end` to read, and takes finished operations with `pop_done`. Nothing here calls back
/// into a user.
class session final : private finisher {
 public:
  session(const limits& agreed, identity who, std::chrono::steady_clock::duration operation_timeout,
          chunk_order chunks = chunk_order::ascending);

  /// Before the first frame either way, where the peer's limits come later than the first
  /// operation.
  void agree(const limits& on) noexcept;
  /// From here on views may be of any kind, and whoever moves bytes knows how; `by` fills those
  /// whose message came first. The targets of landings are then not for the processor to touch.
  void fills_by(filler* by) noexcept { filler_ = by; }

  void start(operation& op);
  /// In place of `start`, `next` and `sent`, for whoever writes the frame and the view right away:
  /// a send to host memory's channel that leaves before anything else is over. False: nothing has
  /// changed, and `start` has to be called.
  bool leave_at_once(operation& op, frame& header);
  /// Ends `op` in place of `start`.
  void refuse(operation& op, const error& why);
  void cancel(operation& op);
  /// Finished operations, oldest first; null when there is none.
  operation* pop_done() noexcept { return done_.pop_front(); }
  bool has_done() const noexcept { return !done_.empty(); }
  /// Takes `op` back from the finished ones: true if it was over before it was waited for.
  bool take_if_done(operation& op) noexcept;

  /// False: `next` would find nothing; a glance.
  bool may_have_next() const noexcept { return inbox_.may_have_next() || outbox_.may_have_next(); }
  bool next(outgoing& out);
  /// Makes a frame of data that `next` has just given bring the chunks that follow, too, up to so
  /// many bytes: for who moves several in one piece. @pre `most_bytes` fits 32 bits
  void widen(outgoing& out, std::uint64_t most_bytes) {
    if (!failed_ && !peer_closed_) outbox_.widen(out, most_bytes);
  }
  void sent(const outgoing& out) { outbox_.sent(out); }
  /// In place of `sent`: the payload could not be read, and has not left. Its operation fails so.
  void spoil(const outgoing& out, const error& why);

  // Whoever may touch a view though its operation is over pins it: it is then told, by `pop_done`,
  // with the last pin.
  void pin(operation& op) noexcept { ++op.pins; }
  void unpin(operation& op) override;
  /// A receive whose view could not be filled, over and pinned or not yet over.
  void spoil(operation& op, const error& why);

  // Where NICs write by themselves.
  void lends_by(lender* who) noexcept;
  const grant* way_for(const frame& chunk, std::uint16_t lane, std::uint32_t epoch) noexcept {
    return outbox_.way_for(chunk, lane, epoch);
  }
  void placed(const frame& chunk) noexcept { outbox_.placed(chunk); }
  void displaced(const frame& chunk) { outbox_.displaced(chunk); }
  /// All ways into the view of a receive that is over are closed.
  void returned(operation& op) { inbox_.returned(op); }

  /// A frame without payload. False ends the session: see `violation`.
  bool handle(const frame& f);
  /// A frame with payload: `where` says where the bytes go and stays in place until `end` or
  /// `fail`.
  bool begin(const frame& f, landing& where);
  void end(landing& where);
  /// In place of both, for an eager message of which all is here: the receive whose view the caller
  /// fills, and then calls `arrived`. Null: `begin` has to be called.
  operation* receiver_of(const frame& f);
  void arrived(const frame& f);
  /// A chunk whose rest will not come here; it may begin again elsewhere.
  void drop(landing& where) noexcept { inbox_.drop(where); }
  /// A payload that the sender could not read.
  void lose(landing& where) { inbox_.lose(where); }
  /// A payload whose rest will never come: an eager message leaves no trace.
  void abandon(landing& where) noexcept { inbox_.abandon(where); }
  const std::string& violation() const noexcept { return violation_; }

  /// Fails every operation, now and later. Only the first reason counts.
  void fail(const error& reason);
  const std::optional<error>& failed() const noexcept { return failed_; }
  bool peer_said_goodbye() const noexcept { return peer_closed_; }
  /// No operation is pending, and none ever will be again.
  bool is_over() const noexcept { return failed_ || peer_closed_; }

  struct deadlines {
    operation::time_point next = operation::time_point::max();
    /// A send is late with a frame half written: only the end of the channel frees its view.
    bool stuck = false;
  };
  /// Ends what is past its deadline.
  deadlines expire(operation::time_point now);

  /// Any operation that is not over or not yet told, removed from the session; null if there is
  /// none. For an executor that goes away: freeing one operation may free others.
  operation* pop_any() noexcept;

  /// Messages that start from here on are cut for so many lanes (`chunk_bytes_for`).
  void cut_for(std::size_t lanes) noexcept { outbox_.cut_for(lanes); }
  std::uint32_t upcoming_chunk_bytes() noexcept { return outbox_.upcoming_chunk_bytes(); }
  /// Of messages that the peer waits for, what was not yet given out by `next`.
  std::uint64_t accepted_bytes_left() const noexcept { return outbox_.accepted_bytes_left(); }

  const limits& agreed() const noexcept { return limits_; }
  const identity& who() const noexcept { return who_; }
  channel_stats stats() const noexcept;

 private:
  void finish(operation& op, error_code result, std::string detail) override;
  void fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) override;
  void start_over(operation& op) noexcept;
  void set_failure(operation& op, error_code result, std::string detail);
  void tell(operation& op);
  bool violated(std::string why);
  bool carries_credit(frame_type type) const noexcept;

  limits limits_;
  const identity who_;
  const std::chrono::steady_clock::duration timeout_;
  const chunk_order chunks_;
  outbox outbox_;
  inbox inbox_;
  operation_list held_;  // over, and pinned
  operation_list done_;
  filler* filler_ = nullptr;
  lender* lender_ = nullptr;
  std::optional<error> failed_;
  std::string violation_;
  bool peer_closed_ = false;
  channel_stats stats_;
};

}  // namespace tandem::protocol
