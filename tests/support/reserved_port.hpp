#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace tandem::test {

/// A TCP port of the loopback address, reserved for its lifetime: bound with SO_REUSEADDR and not
/// listening, it lets a listener of this or another process share it, but is not assigned to any
/// other socket. A port that was only looked up may soon be another test's.
class reserved_port {
 public:
  reserved_port() : socket_(loop_, boost::asio::ip::tcp::v4()) {
    socket_.set_option(boost::asio::socket_base::reuse_address(true));
    socket_.bind({boost::asio::ip::address_v4::loopback(), 0});
  }
  std::uint16_t number() const { return socket_.local_endpoint().port(); }
  std::string text() const { return "127.0.0.1:" + std::to_string(number()); }

 private:
  boost::asio::io_context loop_;
  boost::asio::ip::tcp::socket socket_;
};

}  // namespace tandem::test
