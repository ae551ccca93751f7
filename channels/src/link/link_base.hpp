#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tandem/channel.hpp>
#include <tandem/detail/loop_owner.hpp>
#include <tandem/detail/pending.hpp>

#include "protocol/session.hpp"

namespace tandem::transport {

/// What the links of all transports share: completion on the executor, deadlines, the loss of the
/// peer, and the end. A transport derives from it and carries out the session by its own I/O.
///
/// Its `start` ends with `is_done`. It calls `complete_done` when it has received something outside
/// of `start`, and `peer_lost`, `peer_failed` or `protocol_violation` when nothing more will come.
///
/// Kept alive by its handle (`channel_handle`) and by what is pending in it.
class link_base : public std::enable_shared_from_this<link_base>, private pending_owner {
 public:
  /// Called when the peer is lost without a close frame. True: the owner will call `fail` with the
  /// right reason.
  using lost_handler = std::function<bool(const error& reason)>;

  /// Cancels one operation; it completes on the executor.
  void cancel(operation& op);
  /// Fails all operations, now and later. Only the first reason counts.
  /// @param notify_peer  sends the peer a close frame, where it can still receive one
  void fail(const error& reason, bool notify_peer);
  /// Counts its messages from now on, if the process has a sink for metrics.
  void count_messages();
  void on_lost(lost_handler handler) { lost_ = std::move(handler); }
  /// As `on_lost`, for a peer that is connected and does not answer: its connection to rank 0 may
  /// be intact.
  void on_silent(lost_handler handler) { silent_ = std::move(handler); }

  const asio::any_io_executor& get_executor() const noexcept { return executor_; }
  const protocol::session& messages() const noexcept { return messages_; }
  const protocol::limits& agreed() const noexcept { return messages_.agreed(); }
  channel_stats stats() const noexcept { return messages_.stats(); }
  /// It has failed; no operation will be accepted.
  bool is_over() const noexcept { return is_over_; }

 protected:
  /// @param component  of its log records
  /// @param messages   the session, a member of the derived class
  link_base(asio::any_io_executor executor, std::string_view component,
            protocol::session& messages);
  ~link_base() = default;

  /// The end of `start`: whether the operation is complete, so that its handler is not called.
  bool is_done(operation& op) {
    const bool is_complete = messages_.take_if_done(op);
    complete_soon();
    if (is_complete) return true;
    if (op.due < due_) arm_timer(op.due);
    return false;
  }
  /// Calls the handlers of complete operations. Never inside `start`.
  void complete_done();
  /// The same in a later step of the loop.
  void complete_soon() {
    if (!completion_posted_ && messages_.has_done()) post_completion();
  }

  /// Begins every handler: throws `errc::wrong_thread` out of the loop of another thread, before it
  /// touches anything.
  void require_loop() const { owner_.require_here("a completion of a channel"); }

  /// The link is open: the loop runs until `let_loop_end`, or `fail`.
  void keep_loop_running();
  void let_loop_end() noexcept;

  /// The connection ended without a close frame.
  /// @param advice     precedes the general one
  /// @param is_silent  the peer is connected and does not answer
  void peer_lost(const std::string& how, const std::string& advice = {}, bool is_silent = false);
  /// The peer closed because of an error, which rank 0 may know; a channel without a job has only
  /// this.
  void peer_failed();
  void protocol_violation(const std::string& why);
  /// For a link that is destroyed with its loop: destroys its operations.
  void abandon_operations() noexcept;

 private:
  /// Ends the I/O and fails the session, as `fail`. @pre not called before
  virtual void stop(const error& reason, bool notify_peer) = 0;
  /// Operations were cancelled or have timed out: releases their views and sends what follows.
  virtual void operations_ended() = 0;
  /// What grows while a send advances. If a late send's does not for a second, the link fails, as
  /// only that returns the view. Empty: the transport finds that out itself.
  virtual std::optional<std::uint64_t> progress() const noexcept = 0;
  /// The loop is being destroyed: ends the I/O. False: views are still accessed, and the transport
  /// calls `abandon_operations` itself afterwards.
  virtual bool abandon_io() noexcept = 0;

  void post_completion();
  void arm_timer(operation::time_point when);
  void expire();
  void abandon() noexcept override;

  static constexpr std::uint64_t no_late_send = ~std::uint64_t{0};

  const asio::any_io_executor executor_;
  const detail::loop_owner owner_;
  const std::string_view component_;
  protocol::session& messages_;
  asio::steady_timer timer_;
  operation::time_point due_ = operation::time_point::max();
  std::uint64_t progress_when_late_ = no_late_send;
  lost_handler lost_, silent_;
  asio::any_io_executor work_;
  bool completion_posted_ = false;
  bool is_lost_ = false;
  bool is_over_ = false;
};

}  // namespace tandem::transport
