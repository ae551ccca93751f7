#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <utility>

#include "sealed/keys.hpp"

namespace tandem::sealed {

namespace asio = boost::asio;

/// A connected socket after the handshake, and the keys for what follows.
struct connection {
  connection(asio::ip::tcp::socket connected, keys with = {})
      : socket(std::move(connected)), seal(std::move(with)) {}

  asio::ip::tcp::socket socket;
  keys seal;
};

}  // namespace tandem::sealed
