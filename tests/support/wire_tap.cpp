#include "support/wire_tap.hpp"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <tandem/detail/quiet.hpp>
#include <utility>

namespace tandem::test {
namespace {
using detail::quiet;
}

wire_tap::wire_tap(const asio::any_io_executor& executor, asio::ip::tcp::endpoint behind)
    : acceptor_(executor, {asio::ip::address_v4::loopback(), 0}), behind_(std::move(behind)) {}

std::shared_ptr<wire_tap> wire_tap::open(const asio::any_io_executor& executor,
                                         asio::ip::tcp::endpoint behind) {
  std::shared_ptr<wire_tap> made(new wire_tap(executor, std::move(behind)));
  asio::co_spawn(executor, made->accept_all(), [made](auto...) {});
  return made;
}

awaitable<void> wire_tap::accept_all() {
  for (;;) {
    auto [failure, incoming] = co_await acceptor_.async_accept(quiet);
    if (failure) co_return;
    const auto near = std::make_shared<asio::ip::tcp::socket>(std::move(incoming));
    const auto far = std::make_shared<asio::ip::tcp::socket>(acceptor_.get_executor());
    const auto [connect_failure] = co_await far->async_connect(behind_, quiet);
    if (connect_failure) continue;
    const auto flip_at = std::exchange(flip_at_, std::nullopt);
    const auto self = shared_from_this();
    asio::co_spawn(acceptor_.get_executor(), pass_on(near, far, flip_at), [self](auto...) {});
    asio::co_spawn(acceptor_.get_executor(), pass_on(far, near, std::nullopt), [self](auto...) {});
  }
}

awaitable<void> wire_tap::pass_on(socket from, socket to, std::optional<std::size_t> flip_at) {
  std::string& recorded = recorded_.emplace_back();
  std::array<char, 4096> some;
  for (;;) {
    const auto [failure, n] = co_await from->async_read_some(asio::buffer(some), quiet);
    if (failure) break;
    if (flip_at && *flip_at >= recorded.size() && *flip_at < recorded.size() + n) {
      some[*flip_at - recorded.size()] ^= 1;
    }
    recorded.append(some.data(), n);
    const auto [write_failure, written] =
        co_await asio::async_write(*to, asio::buffer(some, n), quiet);
    if (write_failure) break;
  }
  error_code ignored;
  to->shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

std::size_t wire_tap::count(std::string_view words) const {
  std::size_t times = 0;
  for (const std::string& one : recorded_) {
    for (auto at = one.find(words); at != std::string::npos; at = one.find(words, at + 1)) ++times;
  }
  return times;
}

std::size_t wire_tap::recorded_bytes() const {
  std::size_t bytes = 0;
  for (const std::string& one : recorded_) bytes += one.size();
  return bytes;
}

}  // namespace tandem::test
