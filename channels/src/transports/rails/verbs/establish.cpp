#include <sys/socket.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>

#include "sealed/stream.hpp"
#include "transports/rails/verbs/lane_connection.hpp"

namespace tandem::verbs {
namespace {

constexpr std::byte ready{'R'};
constexpr std::chrono::milliseconds poll_interval{1};

[[noreturn]] void ended(const std::string& why) {
  throw error(errc::peer_closed, "the peer closed the connection during RDMA setup: " + why,
              "see the log of the peer");
}

asio::awaitable<void> write_all(asio::ip::tcp::socket& socket, sealed::stream& bytes,
                                std::span<std::byte> from) {
  while (!from.empty()) {
    const iovec part{from.data(), from.size()};
    const ssize_t n = bytes.send(std::span(&part, 1));
    if (n < 0 && errno != EAGAIN && errno != EINTR) ended(detail::errno_text(errno));
    if (n > 0) from = from.subspan(static_cast<std::size_t>(n));
    if (n < 0) co_await socket.async_wait(asio::socket_base::wait_write, asio::use_awaitable);
  }
  while (!bytes.flush()) {
    co_await socket.async_wait(asio::socket_base::wait_write, asio::use_awaitable);
  }
}

asio::awaitable<void> read_all(asio::ip::tcp::socket& socket, sealed::stream& bytes,
                               std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec part{into.data(), into.size()};
    const ssize_t n = bytes.receive(std::span(&part, 1));
    if (n == 0) ended("end of stream");
    if (n < 0 && errno != EAGAIN && errno != EINTR) ended(bytes.describe(errno));
    if (n > 0) into = into.subspan(static_cast<std::size_t>(n));
    const bool must_wait = n < 0 && !bytes.holds_more();
    if (must_wait) {
      co_await socket.async_wait(asio::socket_base::wait_read, asio::use_awaitable);
    }
  }
}

bool has_ended(asio::ip::tcp::socket& socket) noexcept {
  std::byte next;
  const ssize_t n = ::recv(socket.native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/// Many networks carry this connection and no RDMA: filters, wrong GIDs, rail-only fabrics. A lane
/// over such a path would lose data until its timeout.
asio::awaitable<void> check_path(asio::ip::tcp::socket& socket, endpoint& over) {
  asio::steady_timer timer(socket.get_executor());
  over.send_path_check();
  for (;;) {
    while (over.poll()) {
    }
    if (!over.failure().empty()) {
      throw error(errc::unreachable, "the RDMA path carries no traffic: " + over.failure());
    }
    if (over.path_works()) co_return;
    if (has_ended(socket)) ended("end of stream");
    timer.expires_after(poll_interval);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

}  // namespace

asio::awaitable<std::unique_ptr<lane_connection>> establish(sealed::connection over,
                                                            std::shared_ptr<adapter> on,
                                                            queue_depths has) {
  auto made = std::make_unique<endpoint>(std::move(on), has);
  error_code ignored;
  over.socket.non_blocking(true, ignored);
  over.socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  sealed::stream bytes(over.socket.native_handle(), over.seal);
  wire_qp_info local_info = encode(made->local_info()), remote_info{};
  co_await write_all(over.socket, bytes, local_info);
  co_await read_all(over.socket, bytes, remote_info);
  const qp_info peer = decode(remote_info);
  made->connect(peer);
  std::byte flag = ready;
  co_await write_all(over.socket, bytes, {&flag, 1});
  co_await read_all(over.socket, bytes, {&flag, 1});
  if (flag != ready) ended("not the ready byte");
  co_await check_path(over.socket, *made);
  co_return std::make_unique<lane_connection>(std::move(made), std::move(over.socket));
}

}  // namespace tandem::verbs
