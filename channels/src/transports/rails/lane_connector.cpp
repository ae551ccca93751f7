#include "transports/rails/lane_connector.hpp"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::rails {
namespace {

constexpr std::chrono::milliseconds first_pause{10}, longest_pause{500}, connect_limit{6000};

}  // namespace

lane_connector::lane_connector(asio::any_io_executor executor, const core& state,
                               const lane_set& lanes, owner& of)
    : executor_(std::move(executor)),
      core_(state),
      lanes_(lanes),
      owner_(of),
      attempts_(lanes.size()) {}

void lane_connector::use(connect_function connect, probe_function probe) {
  connect_ = std::move(connect);
  probe_ = std::move(probe);
}

void lane_connector::start() {
  if (!connect_) return probe_when_alone();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_.connection(i) != nullptr || attempts_[i]) continue;
    attempts_[i] = std::make_shared<cancellable>();
    attempts_[i]->start(executor_, connect_lane(i),
                        [self = shared(), i, keep = attempts_[i]](std::exception_ptr) {
                          self->attempts_[i].reset();
                        });
  }
}

void lane_connector::cancel() {
  for (const auto& one : attempts_) {
    if (one) one->cancel();
  }
  if (active_probe_) active_probe_->cancel();
}

void lane_connector::probe_when_alone() {
  if (!probe_ || active_probe_ || core_.any_live()) return;
  active_probe_ = std::make_shared<cancellable>();
  active_probe_->start(
      executor_, probe_peer(),
      [self = shared(), keep = active_probe_](std::exception_ptr) { self->active_probe_.reset(); });
}

asio::awaitable<void> lane_connector::connect_lane(std::uint16_t index) {
  const auto self = shared();
  std::function<asio::awaitable<void>()> once = [this, index] { return connect_once(index); };
  std::function<bool()> is_enough = [this, index] { return lanes_.connection(index) != nullptr; };
  co_await retry(std::move(once), std::move(is_enough));
}

asio::awaitable<void> lane_connector::connect_once(std::uint16_t index) {
  const std::uint32_t epoch = core_.next_epoch(index);
  std::string name;
  std::unique_ptr<lane_connection> over = co_await connect_(index, epoch, name);
  owner_.connected(index, epoch, std::move(over), std::move(name));
}

asio::awaitable<void> lane_connector::probe_peer() {
  const auto self = shared();
  std::function<asio::awaitable<void>()> once = probe_;
  std::function<bool()> is_enough = [this] { return core_.any_live(); };
  co_await retry(std::move(once), std::move(is_enough));
}

/// Repeats until it is no longer needed, or the peer refuses and no lane is left.
asio::awaitable<void> lane_connector::retry(std::function<asio::awaitable<void>()> once,
                                            std::function<bool()> is_enough) {
  asio::steady_timer timer(executor_);
  std::chrono::milliseconds pause = first_pause;
  while (!is_enough() && owner_.wants_lanes()) {
    bool refused = false;
    try {
      co_await with_deadline(connect_limit, once(), "connecting a lane");
    } catch (const error& e) {
      if (e.code() == asio::error::operation_aborted) throw;
      refused = e.code() == asio::error::connection_refused;
      log(log_level::debug, "rails", e.what());
    }
    if (is_enough()) break;
    if (refused && !core_.any_live()) {
      owner_.refused();
      break;
    }
    if (!owner_.wants_lanes()) break;
    timer.expires_after(pause);
    co_await timer.async_wait(asio::use_awaitable);
    pause = std::min(2 * pause, longest_pause);
  }
}

}  // namespace tandem::rails
