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

/// One end of a channel without I/O: operations in, frames out; frames in, operations done.
///
/// Whoever carries it out (a socket, memory) calls `next`/`sent` to write, `handle` or
/// `begin`/`end` to read, and takes finished operations with `pop_done`. Nothing here calls back
/// into a user.
class session final : private finisher {
 public:
  session(const limits& agreed, identity who, std::chrono::steady_clock::duration operation_timeout,
          chunk_order chunks = chunk_order::ascending);

  void start(operation& op);
  void cancel(operation& op);
  /// Finished operations, oldest first; null when there is none.
  operation* pop_done() noexcept { return done_.pop_front(); }
  bool has_done() const noexcept { return !done_.empty(); }
  /// Takes `op` back from the finished ones: true if it was over before it was waited for.
  bool take_if_done(operation& op) noexcept;

  bool next(outgoing& out);
  void sent(const outgoing& out) { outbox_.sent(out); }

  /// A frame without payload. False ends the session: see `violation`.
  bool handle(const frame& f);
  /// A frame with payload: `where` says where the bytes go and stays in place until `end` or
  /// `fail`.
  bool begin(const frame& f, landing& where);
  void end(landing& where);
  /// A chunk whose rest will not come here; it may begin again elsewhere.
  void drop(landing& where) noexcept { inbox_.drop(where); }
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
  bool violated(std::string why);
  bool carries_credit(frame_type type) const noexcept;

  const limits limits_;
  const identity who_;
  const std::chrono::steady_clock::duration timeout_;
  const chunk_order chunks_;
  outbox outbox_;
  inbox inbox_;
  operation_list done_;
  std::optional<error> failed_;
  std::string violation_;
  bool peer_closed_ = false;
  channel_stats stats_;
};

}  // namespace tandem::protocol
