#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstddef>

namespace tandem::verbs {

/// The peer has closed this connection, or it broke; what has come is left where it is.
inline bool has_ended(boost::asio::ip::tcp::socket& socket) noexcept {
  std::byte next;
  const ssize_t n = ::recv(socket.native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace tandem::verbs
