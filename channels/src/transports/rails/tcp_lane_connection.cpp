#include "transports/rails/tcp_lane_connection.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace tandem::rails {

tcp_lane_connection::tcp_lane_connection(sealed::connection over, bool is_standby)
    : socket_(std::move(over.socket)),
      bytes_(socket_.native_handle(), over.seal),
      is_standby_(is_standby) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void tcp_lane_connection::wait_read(handler on_readable) {
  if (bytes_.holds_more()) {
    // Buffered here, so the socket does not become readable for it.
    asio::post(socket_.get_executor(), [on_readable = std::move(on_readable)] { on_readable({}); });
    return;
  }
  socket_.async_wait(asio::socket_base::wait_read, std::move(on_readable));
}

void tcp_lane_connection::wait_write(handler on_writable) {
  socket_.async_wait(asio::socket_base::wait_write, std::move(on_writable));
}

void tcp_lane_connection::bound_unsent(int bytes) {
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void tcp_lane_connection::close(bool reset) noexcept {
  error_code ignored;
  if (reset) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

bool tcp_lane_connection::is_on(const nic& which) const {
  error_code ignored;
  const asio::ip::address local = socket_.local_endpoint(ignored).address();
  return std::any_of(which.addresses.begin(), which.addresses.end(),
                     [&local](const nic_address& address) { return address.where == local; });
}

}  // namespace tandem::rails
