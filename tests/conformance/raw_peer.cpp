#include "conformance/raw_peer.hpp"

#include <boost/asio/read.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <tandem/detail/quiet.hpp>

namespace tandem::test {
namespace {
using detail::quiet;
}

awaitable<raw_socket> raw_connect(std::uint16_t port) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  raw_socket socket(executor);
  const asio::ip::tcp::endpoint to(asio::ip::address_v4::loopback(), port);
  co_await socket.async_connect(to, asio::use_awaitable);
  co_return socket;
}

awaitable<void> send_raw(raw_socket& to, std::string bytes) {
  co_await asio::async_write(to, asio::buffer(bytes), quiet);
}

awaitable<void> send_raw(raw_socket& to, protocol::frame f, std::string payload) {
  protocol::wire_frame wire;
  protocol::encode(f, wire);
  std::string bytes(reinterpret_cast<const char*>(wire.data()), wire.size());
  co_await send_raw(to, bytes + payload);
}

awaitable<void> send_raw(raw_socket& to, transport::hello h) {
  transport::wire_hello wire;
  transport::encode(h, wire);
  std::string bytes(reinterpret_cast<const char*>(wire.data()), wire.size());
  co_await send_raw(to, std::move(bytes));
}

awaitable<std::string> receive_raw(raw_socket& from, std::size_t bytes) {
  std::string got(bytes, '\0');
  const auto [failure, n] = co_await asio::async_read(from, asio::buffer(got), quiet);
  got.resize(n);
  co_return got;
}

awaitable<protocol::frame> receive_frame(raw_socket& from) {
  for (;;) {
    const std::string bytes = co_await receive_raw(from, protocol::frame_bytes);
    require(bytes.size() == protocol::frame_bytes, "the channel ended before the next frame");
    std::string why;
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    const auto f = protocol::decode(
        std::span<const std::byte, protocol::frame_bytes>(first, protocol::frame_bytes), why);
    require(f.has_value(), "the channel sent no frame: " + why);
    co_await receive_raw(from, f->payload_bytes);
    if (f->type != protocol::frame_type::data) co_return *f;
  }
}

awaitable<std::string> receive_all(raw_socket& from) {
  std::string all;
  for (;;) {
    std::string some(65536, '\0');
    const auto [failure, n] = co_await from.async_read_some(asio::buffer(some), quiet);
    if (failure) co_return all;
    all.append(some.data(), n);
  }
}

awaitable<hostile_pair> connect_hostile(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, options);
  raw_socket peer = co_await raw_connect(listener.port());
  transport::hello local;
  local.limits = protocol::offered(options);
  co_await send_raw(peer, local);
  std::unique_ptr<channel> made = co_await listener.accept();
  const std::string answer = co_await receive_raw(peer, transport::hello_bytes);
  require(answer.size() == transport::hello_bytes, "no answer to the hello");
  co_return hostile_pair{std::move(made), std::move(peer)};
}

}  // namespace tandem::test
