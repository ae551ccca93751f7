#include "support/free_port.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace tandem::test {

std::uint16_t free_port() {
  namespace asio = boost::asio;
  asio::io_context context;
  const asio::ip::tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
  const asio::ip::tcp::acceptor acceptor(context, any);
  return acceptor.local_endpoint().port();
}

}  // namespace tandem::test
