// What a new transport costs: its I/O (support/packet_link) and this file.

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/this_coro.hpp>
#include <cerrno>
#include <system_error>

#include "link/channel_handle.hpp"
#include "support/channel_case.hpp"
#include "support/packet_link.hpp"

namespace tandem::test {
namespace {

constexpr std::uint32_t max_packet_bytes = 64 * 1024;  // a socket's buffer takes a few of them

std::unique_ptr<channel> make_end(const asio::any_io_executor& executor, int socket,
                                  const settings& options) {
  const asio::generic::seq_packet_protocol unix_packets(AF_UNIX, 0);
  protocol::limits limits = protocol::offered(options);
  limits.eager_bytes = std::min(limits.eager_bytes, max_packet_bytes);
  limits.chunk_bytes = std::min(limits.chunk_bytes, max_packet_bytes);
  const auto made = std::make_shared<packet_link>(
      packet_link::socket(executor, unix_packets, socket), limits, options);
  made->run();
  return std::make_unique<transport::channel_handle<packet_link>>(made);
}

awaitable<channel_pair> pair_over_packets(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  co_return channel_pair{make_end(executor, sockets[0], options),
                         make_end(executor, sockets[1], options)};
}

INSTANTIATE_TEST_SUITE_P(packets, channel_test,
                         testing::Values(channel_case{"packets", pair_over_packets}), case_name);

}  // namespace
}  // namespace tandem::test
