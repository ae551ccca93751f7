#pragma once

#include <sys/types.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <string>
#include <tandem/settings.hpp>

#include "shm/memory.hpp"
#include "tcp/greeter.hpp"
#include "tcp/introduce.hpp"

namespace tandem::shm {

/// A Unix socket between two ends on one host. The memory that they share goes with the hello of
/// the end that connects.
class guest_socket : public asio::local::stream_protocol::socket {
 public:
  using base = asio::local::stream_protocol::socket;
  using base::base;
  explicit guest_socket(base&& from) : base(std::move(from)) {}

  memory shared;
  bool lost_memory = false;  ///< it was passed on, and this process had no descriptor to take it
};

/// Reads a hello and, on the accepting side, takes the memory that comes with it. Processes of
/// other users are strangers whatever they say.
asio::awaitable<bool> read_hello(guest_socket& from, tcp::heard_hello& theirs, std::string& why);
/// Passes the memory on, if there is any.
asio::awaitable<void> send_hello(guest_socket& to, const tcp::wire_hello& said);
/// The process at the other end belongs to this one's user.
bool is_own_user(const guest_socket& guest) noexcept;
std::string describe_guest(const guest_socket& guest);
inline void configure(guest_socket&, const settings&) noexcept {}

/// Of the process at the other end, by the kernel's word: 0 where it has no number here.
pid_t pid_of_peer(const guest_socket& guest) noexcept;

/// The door's address: a name in the abstract namespace of this network namespace, which leaves
/// nothing behind.
asio::local::stream_protocol::endpoint abstract_endpoint(const std::string& name);
/// One that nobody else has.
std::string random_name();
/// Opens a listening socket.
guest_socket::protocol_type::acceptor listen(const asio::any_io_executor& executor,
                                             const std::string& name);

}  // namespace tandem::shm

namespace tandem::tcp {

template <>
inline constexpr std::string_view room_of<shm::guest_socket> = "shm";
/// Nothing of it ever leaves the host.
template <>
inline constexpr bool may_be_sealed<shm::guest_socket> = false;
extern template class basic_greeter<shm::guest_socket>;

}  // namespace tandem::tcp

namespace tandem::shm {

using greeter = tcp::basic_greeter<guest_socket>;

}  // namespace tandem::shm
