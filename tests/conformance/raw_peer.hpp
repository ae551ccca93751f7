#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <span>
#include <tandem/channels.hpp>

#include "fabric/hello.hpp"
#include "protocol/frame.hpp"
#include "support/coroutine_test.hpp"

namespace tandem::test {

/// A plain socket by which a test sends any bytes to a listener or a channel.
using raw_socket = asio::ip::tcp::socket;

awaitable<raw_socket> raw_connect(std::uint16_t port);
awaitable<void> send_raw(raw_socket& to, std::string bytes);
/// Sends a frame with a valid checksum, and its payload.
awaitable<void> send_raw(raw_socket& to, protocol::frame f, std::string payload = {});
awaitable<void> send_raw(raw_socket& to, transport::hello h);
/// Exactly `bytes` bytes, or fewer where the stream ends.
awaitable<std::string> receive_raw(raw_socket& from, std::size_t bytes);
/// The next frame that is not data; the payload of eager frames is skipped.
awaitable<protocol::frame> receive_frame(raw_socket& from);
/// All bytes until the stream ends.
awaitable<std::string> receive_all(raw_socket& from);

/// A channel whose peer is a raw socket that has completed the handshake.
struct hostile_pair {
  std::unique_ptr<channel> end;
  raw_socket peer;
};
awaitable<hostile_pair> connect_hostile(settings options);

}  // namespace tandem::test
