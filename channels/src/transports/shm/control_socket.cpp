#include "transports/shm/control_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/detail/trust.hpp>

#include "fabric/handshake_server_body.hpp"

namespace tandem::transport {

template class basic_handshake_server<shm::control_socket>;

}  // namespace tandem::transport

namespace tandem::shm {
namespace {

using detail::quiet;
constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int));

/// At most one descriptor; the kernel closes those that do not fit the control buffer.
descriptor descriptor_in(msghdr& message) noexcept {
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  const bool has_one = head != nullptr && head->cmsg_level == SOL_SOCKET &&
                       head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int));
  if (!has_one) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return descriptor(fd);
}

/// When this process is out of descriptors, the kernel delivers the bytes without the passed one
/// and sets MSG_CTRUNC.
ssize_t receive(control_socket& from, std::span<std::byte> into, descriptor& passed) noexcept {
  alignas(cmsghdr) std::array<std::byte, control_bytes> control;
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(from.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n <= 0) return n;
  descriptor found = descriptor_in(message);
  if (found.is_open())
    passed = std::move(found);
  else if ((message.msg_flags & MSG_CTRUNC) != 0)
    from.descriptor_lost = true;
  return n;
}

/// Sends the hello with the descriptor of the memory. Returns 0, or the errno. The socket is new,
/// so its buffer takes all of it. Not a coroutine: GCC 12 ignores the alignment of variables in
/// coroutine frames.
int pass(control_socket& to, std::span<const std::byte> hello) noexcept {
  alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
  iovec part{const_cast<std::byte*>(hello.data()), hello.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = to.shared.get_descriptor();
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  const ssize_t n = ::sendmsg(to.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return n < 0 ? errno : 0;
}

/// The connecting side created the memory and receives none.
bool take_memory(control_socket& into, descriptor passed, std::string& why) {
  if (into.shared.is_open() || into.descriptor_lost) return true;
  try {
    into.shared = memory::open(std::move(passed));
    into.shared.close_descriptor();
    return true;
  } catch (const error& e) {
    why = e.context().detail;
    return false;
  }
}

}  // namespace

bool is_own_user(const control_socket& socket) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  return ::getsockopt(const_cast<control_socket&>(socket).native_handle(), SOL_SOCKET, SO_PEERCRED,
                      &who, &length) == 0 &&
         who.uid == ::geteuid();
}

asio::awaitable<bool> read_hello(control_socket& from, transport::received_hello& remote_hello,
                                 std::string& why) {
  if (!is_own_user(from)) {
    why = "it belongs to another user";
    co_return false;
  }
  transport::wire_hello& wire = remote_hello.wire;
  std::size_t have = 0;
  descriptor passed;
  for (;;) {
    const auto [failure] = co_await from.async_wait(control_socket::wait_read, quiet);
    if (failure) throw error(failure);
    const ssize_t n = receive(from, std::span(wire).subspan(have), passed);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) {
      why =
          have == 0 ? transport::closed_before_handshake : "it closed the connection in mid-hello";
      co_return false;
    }
    have += static_cast<std::size_t>(n);
    const std::span<const std::byte> so_far(wire.data(), have);
    const std::optional<bool> known = transport::parse_hello(so_far, remote_hello.fields, why);
    if (!known) continue;
    // Another version may pass something else: it is refused by its version number.
    const bool same = remote_hello.fields.version == protocol::protocol_version;
    co_return *known && (!same || take_memory(from, std::move(passed), why));
  }
}

asio::awaitable<void> send_hello(control_socket& to, const transport::wire_hello& hello) {
  const auto began = std::chrono::steady_clock::now();
  asio::steady_timer pause(to.get_executor());
  // Other failures show when the reply is read. This one, too many descriptors in flight, passes
  // when peers read.
  while (pass(to, hello) == ETOOMANYREFS) {
    if (std::chrono::steady_clock::now() - began >= transport::exhaustion_timeout) {
      throw detail::exhausted(ETOOMANYREFS, detail::resource::descriptor,
                              "cannot pass shared memory to the peer");
    }
    pause.expires_after(std::chrono::milliseconds(5));
    co_await pause.async_wait(asio::use_awaitable);
  }
  to.shared.close_descriptor();
}

pid_t pid_of_peer(const control_socket& socket) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  const int found = ::getsockopt(const_cast<control_socket&>(socket).native_handle(), SOL_SOCKET,
                                 SO_PEERCRED, &who, &length);
  return found == 0 ? who.pid : 0;
}

std::string describe_peer(const control_socket& socket) {
  return fmt::format("process {}", pid_of_peer(socket));
}

asio::local::stream_protocol::endpoint abstract_endpoint(const std::string& name) {
  return asio::local::stream_protocol::endpoint(std::string(1, '\0') + name);
}

std::string random_name() {
  std::array<std::byte, 16> bytes;
  trust::random_bytes(bytes);
  std::string name = "tandem-";
  for (const std::byte b : bytes) name += fmt::format("{:02x}", static_cast<unsigned>(b));
  return name;
}

control_socket::protocol_type::acceptor listen(const asio::any_io_executor& executor,
                                               const std::string& name) {
  const auto at = abstract_endpoint(name);
  control_socket::protocol_type::acceptor acceptor(executor);
  error_code failure;
  detail::open(acceptor, at.protocol(), failure);
  if (!failure) acceptor.bind(at, failure);
  if (!failure) acceptor.listen(asio::socket_base::max_listen_connections, failure);
  if (!failure) acceptor.native_non_blocking(true, failure);
  if (failure == asio::error::address_in_use) {
    throw error(errc::address_in_use, fmt::format("another process holds the name '{}'", name),
                "choose another name");
  }
  if (detail::is_exhausted(failure, detail::resource::descriptor)) {
    throw detail::exhausted(failure.value(), detail::resource::descriptor,
                            "cannot open a listening socket for ranks on this host");
  }
  if (failure) {
    throw error(errc::bad_input, fmt::format("cannot listen as '{}': {}", name, failure.message()),
                "choose a name of at most 100 letters");
  }
  return acceptor;
}

}  // namespace tandem::shm
