#pragma once

#include <sys/types.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <string>
#include <tandem/settings.hpp>

#include "fabric/handshake.hpp"
#include "fabric/handshake_server.hpp"
#include "transports/shm/memory.hpp"

namespace tandem::shm {

/// A Unix socket between two ends on one host. The descriptor of the shared memory is passed with
/// the hello of the end that connects (SCM_RIGHTS).
class control_socket : public asio::local::stream_protocol::socket {
 public:
  using base = asio::local::stream_protocol::socket;
  using base::base;
  explicit control_socket(base&& from) : base(std::move(from)) {}

  memory shared;
  bool descriptor_lost = false;  ///< passed, but this process was out of descriptors (MSG_CTRUNC)
};

/// Reads a hello and, on the accepting side, maps the memory that is passed with it. False with
/// `why` for processes of other users, whatever they send.
asio::awaitable<bool> read_hello(control_socket& from, transport::received_hello& remote_hello,
                                 std::string& why);
/// Sends a hello, with the descriptor of the shared memory if there is any.
asio::awaitable<void> send_hello(control_socket& to, const transport::wire_hello& hello);
/// Whether the process at the other end runs as this process' user (SO_PEERCRED).
bool is_own_user(const control_socket& socket) noexcept;
std::string describe_peer(const control_socket& socket);
inline void configure(control_socket&, const settings&) noexcept {}

/// Process id of the other end, from the kernel (SO_PEERCRED); 0 where it has none in this PID
/// namespace.
pid_t pid_of_peer(const control_socket& socket) noexcept;

/// The listen endpoint: a name in the abstract namespace of this network namespace, which leaves no
/// file behind.
asio::local::stream_protocol::endpoint abstract_endpoint(const std::string& name);
/// A name that is unique on this host.
std::string random_name();
/// Opens a listening socket.
control_socket::protocol_type::acceptor listen(const asio::any_io_executor& executor,
                                               const std::string& name);

}  // namespace tandem::shm

namespace tandem::transport {

template <>
inline constexpr std::string_view log_component<shm::control_socket> = "shm";
/// Its bytes never leave the host.
template <>
inline constexpr bool may_be_sealed<shm::control_socket> = false;
extern template class basic_handshake_server<shm::control_socket>;

}  // namespace tandem::transport

namespace tandem::shm {

using handshake_server = transport::basic_handshake_server<control_socket>;

}  // namespace tandem::shm
