#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <tandem/channel.hpp>
#include <tandem/detail/loop_owner.hpp>
#include <tandem/detail/pending.hpp>

#include "protocol/session.hpp"

namespace tandem::local {

class end;

/// Both sessions under one lock: the thread that starts an operation carries the frames both ways
/// at once.
struct pair_state {
  pair_state(const protocol::limits& agreed, const protocol::identity& first,
             const protocol::identity& second,
             std::chrono::steady_clock::duration operation_timeout);

  /// Carries frames both ways until there are no more. @pre the lock is held.
  void pump();

  std::mutex mutex;
  std::array<protocol::session, 2> sessions;
  std::array<std::weak_ptr<end>, 2> ends;

 private:
  bool carry(protocol::session& from, protocol::session& to);
};

/// One end, on its own executor.
class end final : public std::enable_shared_from_this<end>, private pending_owner {
 public:
  end(std::shared_ptr<pair_state> over, int side, asio::any_io_executor executor);

  bool start(operation& op);
  void cancel(operation& op);
  void fail(const error& reason, bool notify_peer);  // the peer learns of it in any case
  channel_stats stats() const;
  const protocol::limits& agreed() const noexcept { return own_session().agreed(); }
  asio::any_io_executor get_executor() const noexcept { return executor_; }

 private:
  protocol::session& own_session() const noexcept {
    return state_->sessions[static_cast<std::size_t>(side_)];
  }
  std::shared_ptr<end> peer_end() const {
    return state_->ends[static_cast<std::size_t>(1 - side_)].lock();
  }
  void complete_soon();
  void complete_done();
  void arm_timer(operation::time_point when);
  void abandon() noexcept override;

  const std::shared_ptr<pair_state> state_;
  const int side_;
  const asio::any_io_executor executor_;
  const detail::loop_owner owner_;
  asio::any_io_executor work_;  // an open end keeps its loop running
  asio::steady_timer timer_;
  operation::time_point timer_due_ = operation::time_point::max();
  bool completion_posted_ = false;  // under the lock
};

/// The two channels of a pair, which name these ranks in their errors (-1: no ranks).
std::pair<std::unique_ptr<channel>, std::unique_ptr<channel>> connect_ranks(
    asio::any_io_executor first, asio::any_io_executor second, int first_rank, int second_rank,
    const settings& options);

}  // namespace tandem::local
