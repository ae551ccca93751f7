#include "support/rig_lanes.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <tandem/detail/quiet.hpp>

#include "fabric/tcp_connect.hpp"
#include "transports/rails/tcp_lane_connection.hpp"

namespace tandem::test {
namespace {

using detail::quiet;

sealed::keys keys_of(const settings& options, const lane_maker::hello& lane_hello,
                     sealed::side which) {
  if (!options.encrypt) return {};
  return sealed::derive_keys(options.job_secret, std::as_bytes(std::span(lane_hello)), {}, which);
}

awaitable<std::unique_ptr<rails::lane_connection>> connect_lane(
    std::shared_ptr<const lane_maker> by, asio::ip::tcp::endpoint to, std::uint16_t lane,
    std::uint32_t epoch) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::ip::tcp::socket over(executor);
  const auto [failure] = co_await over.async_connect(to, quiet);
  if (failure) throw error(failure);
  const lane_maker::hello lane_hello{lane, epoch};
  const auto [write_failure, n] = co_await asio::async_write(over, asio::buffer(lane_hello), quiet);
  if (write_failure) throw error(write_failure);
  std::unique_ptr<rails::lane_connection> made =
      co_await by->make_connection(std::move(over), lane_hello, sealed::side::connector);
  co_return made;
}

}  // namespace

awaitable<std::unique_ptr<rails::lane_connection>> lane_maker::make_connection(
    asio::ip::tcp::socket over, hello lane_hello, sealed::side which) const {
  transport::configure(over, options);
  sealed::connection connection(std::move(over), keys_of(options, lane_hello, which));
  if (!make) co_return std::make_unique<rails::tcp_lane_connection>(std::move(connection));
  const auto lane = static_cast<std::uint16_t>(lane_hello[0]);
  std::unique_ptr<rails::lane_connection> made = co_await make(std::move(connection), which, lane);
  co_return made;
}

std::shared_ptr<rails::link> make_rig_link(const asio::any_io_executor& executor,
                                           const settings& options, std::size_t lanes,
                                           const rails::timeouts& bounds) {
  const protocol::identity ends_identity{-1, 2, "loopback"};
  return std::make_shared<rails::link>(executor, protocol::offered(options), ends_identity,
                                       options.operation_timeout, lanes, bounds, true);
}

void connect_lanes(rails::link& on, std::shared_ptr<const lane_maker> by,
                   std::function<asio::ip::tcp::endpoint(std::uint16_t lane)> where) {
  on.run([by = std::move(by), where = std::move(where)](std::uint16_t lane, std::uint32_t epoch,
                                                        std::string& name) {
    name = "here";
    return connect_lane(by, where(lane), lane, epoch);
  });
}

lane_acceptor::lane_acceptor(std::shared_ptr<rails::link> on, std::shared_ptr<const lane_maker> by,
                             const asio::ip::address& at)
    : on_(std::move(on)), by_(std::move(by)), acceptor_(on_->get_executor(), {at, 0}) {}

std::shared_ptr<lane_acceptor> lane_acceptor::open(std::shared_ptr<rails::link> on,
                                                   std::shared_ptr<const lane_maker> by,
                                                   const asio::ip::address& at) {
  std::shared_ptr<lane_acceptor> made(new lane_acceptor(std::move(on), std::move(by), at));
  asio::co_spawn(made->acceptor_.get_executor(), made->accept_all(), [made](auto...) {});
  made->on_->run(nullptr);
  return made;
}

asio::ip::tcp::endpoint lane_acceptor::at() const {
  error_code closed;
  const asio::ip::tcp::endpoint where = acceptor_.local_endpoint(closed);
  if (closed) throw error(asio::error::connection_refused);
  return where;
}

void lane_acceptor::close() {
  error_code ignored;
  acceptor_.close(ignored);
}

/// Handles each connection concurrently: one whose setup hangs does not delay others.
awaitable<void> lane_acceptor::accept_all() {
  for (;;) {
    auto [failure, incoming] = co_await acceptor_.async_accept(quiet);
    if (failure) co_return;
    asio::co_spawn(acceptor_.get_executor(), accept_one(std::move(incoming)),
                   [self = shared_from_this()](auto...) {});
  }
}

awaitable<void> lane_acceptor::accept_one(asio::ip::tcp::socket incoming) {
  lane_maker::hello lane_hello{};
  const auto [read_failure, n] =
      co_await asio::async_read(incoming, asio::buffer(lane_hello), quiet);
  if (read_failure) co_return;
  std::unique_ptr<rails::lane_connection> over;
  try {
    over = co_await by_->make_connection(std::move(incoming), lane_hello, sealed::side::listener);
  } catch (const error&) {
    co_return;  // the peer connects again
  }
  on_->attach(static_cast<std::uint16_t>(lane_hello[0]), lane_hello[1], std::move(over), "there");
  if (on_->is_over()) close();
}

bool all_up(const rails::link& end) {
  for (std::uint16_t i = 0; i < end.state().lanes(); ++i) {
    if (!end.state().is_live(i)) return false;
  }
  return true;
}

awaitable<void> poll_until(std::function<bool()> condition, std::string what) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  for (int left = 4000; !condition(); --left) {
    require(left > 0, "timed out waiting for: " + what);
    timer.expires_after(5ms);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

}  // namespace tandem::test
