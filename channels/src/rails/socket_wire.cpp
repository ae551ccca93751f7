#include "rails/socket_wire.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace tandem::rails {

socket_wire::socket_wire(sealed::connection over, bool stands_by)
    : socket_(std::move(over.socket)),
      bytes_(socket_.native_handle(), over.seal),
      stands_by_(stands_by) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void socket_wire::wait_read(handler come) {
  if (bytes_.holds_more()) {
    // Buffered here, so the socket does not become readable for it.
    asio::post(socket_.get_executor(), [come = std::move(come)] { come({}); });
    return;
  }
  socket_.async_wait(asio::socket_base::wait_read, std::move(come));
}

void socket_wire::wait_write(handler go_on) {
  socket_.async_wait(asio::socket_base::wait_write, std::move(go_on));
}

void socket_wire::bound_unsent(int bytes) {
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void socket_wire::close(bool reset) noexcept {
  error_code ignored;
  if (reset) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

bool socket_wire::is_on(const nic& which) const {
  error_code ignored;
  const asio::ip::address local = socket_.local_endpoint(ignored).address();
  return std::any_of(which.addresses.begin(), which.addresses.end(),
                     [&local](const nic_address& address) { return address.where == local; });
}

}  // namespace tandem::rails
