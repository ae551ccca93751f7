#include "transports/tcp/mesh.hpp"

#include <fmt/format.h>

#include <charconv>
#include <tandem/channels.hpp>
#include <utility>

#include "fabric/fabric_handle.hpp"
#include "fabric/tcp_connect.hpp"

namespace tandem::tcp {
namespace {

using transport::handshake_status;
using transport::hello;

asio::ip::tcp::endpoint parse_endpoint(const std::string& text) {
  const std::size_t separator = text.rfind(' ');
  std::uint16_t port = 0;
  if (separator != std::string::npos)
    std::from_chars(text.data() + separator + 1, text.data() + text.size(), port);
  error_code failure;
  const asio::ip::address address = asio::ip::make_address(text.substr(0, separator), failure);
  if (failure || port == 0) {
    throw error(errc::protocol_violation,
                fmt::format("a peer published the invalid listen address '{}'", text));
  }
  return {address, port};
}

}  // namespace

asio::awaitable<void> mesh::open() {
  reserve(1, 1);
  const std::string address = local_address();
  const std::uint16_t port =
      listen_over_tcp(address, options(),
                      [weak = weak_from_this()](asio::ip::tcp::socket incoming, sealed::keys seal,
                                                const hello& local, const hello& remote) {
                        const auto self = std::static_pointer_cast<mesh>(weak.lock());
                        if (!self) return;
                        self->take({std::move(incoming), std::move(seal)}, local, remote);
                      });
  watch_store();
  co_await publish_address(fmt::format("{} {}", address, port));
}

asio::awaitable<void> mesh::connect_peer(int peer) {
  const std::string published = co_await find_address(peer);
  const std::vector<asio::ip::tcp::endpoint> where(1, parse_endpoint(published));
  while (wants(peer)) {
    const hello local = make_hello(peer);
    hello answer;
    sealed::connection made =
        co_await transport::connect_and_handshake(where, local, key(), options(), answer);
    if (answer.answer == handshake_status::accepted) {
      take(std::move(made), local, answer);
      co_return;
    }
    co_await wait_for_crossed();
  }
}

void mesh::take(sealed::connection over, const hello& local, const hello& remote) {
  const int peer = local.to >= 0 ? local.to : remote.from;
  const std::shared_ptr<link> made = make_link(std::move(over), local, remote, options());
  made->on_lost(lost_handler());
  made->on_silent(silent_handler());
  install(peer, std::make_unique<link_channel>(made));
}

std::shared_ptr<link> make_link(sealed::connection over, const hello& local, const hello& remote,
                                const settings& options) {
  error_code ignored;
  const std::string rail = "tcp " + transport::to_text(over.socket.remote_endpoint(ignored));
  auto made = std::make_shared<link>(std::move(over), protocol::agreed(local.limits, remote.limits),
                                     transport::identity_of(local, remote, rail),
                                     options.operation_timeout);
  made->run();
  return made;
}

asio::awaitable<std::unique_ptr<channel>> connect(std::string host, std::uint16_t port,
                                                  settings options) {
  const std::vector<asio::ip::tcp::endpoint> where =
      co_await transport::resolve(std::move(host), port, options.meet_timeout);
  hello local;
  local.limits = protocol::offered(options);
  hello answer;
  const secret key = transport::pair_key(options);
  sealed::connection over =
      co_await transport::connect_and_handshake(where, local, key, options, answer);
  std::shared_ptr<link> made = make_link(std::move(over), local, answer, options);
  co_return std::make_unique<link_channel>(std::move(made));
}

asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options) {
  return transport::open_fabric<mesh>(std::move(meeting), std::move(options));
}

}  // namespace tandem::tcp
