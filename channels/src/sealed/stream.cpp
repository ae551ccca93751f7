#include "sealed/stream.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/error.hpp>

#include "sealed/incoming.hpp"
#include "sealed/outgoing.hpp"

namespace tandem::sealed {
namespace {

/// The MTU of Ethernet. A path MTU above it may be too much for a link on the path whose ICMP
/// message was lost.
constexpr std::uint32_t common_mtu = 1500;

/// Up to this size a copy costs less than a scatter-gather system call: a broadcast of 8 bytes over
/// loopback takes 4.8 us instead of 5.1 between two ranks, and 9.2 instead of 10.3 among four on
/// two cores.
constexpr std::size_t short_bytes = 2048;

ssize_t send_parts(int socket, std::span<const iovec> parts) {
  std::array<std::byte, short_bytes> joined;
  std::size_t total = 0;
  for (const iovec& part : parts) {
    if (part.iov_len > joined.size() - total) {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(parts.data());
      message.msg_iovlen = parts.size();
      return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    std::memcpy(joined.data() + total, part.iov_base, part.iov_len);
    total += part.iov_len;
  }
  return ::send(socket, joined.data(), total, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t take(int socket, std::span<const iovec> space) {
  if (space.size() == 1) return ::recv(socket, space[0].iov_base, space[0].iov_len, MSG_DONTWAIT);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(space.data());
  message.msg_iovlen = space.size();
  return ::recvmsg(socket, &message, MSG_DONTWAIT);
}

}  // namespace

struct stream::sealing {
  explicit sealing(const keys& with) : out(with.outgoing), in(with.incoming) {}
  outgoing out;
  incoming in;
  int failure = 0;  // of the socket, to be reported after the bytes opened before it
};

stream::stream(int socket, const keys& with)
    : socket_(socket), sealing_(with.empty() ? nullptr : std::make_unique<sealing>(with)) {}
stream::~stream() = default;

ssize_t stream::send(std::span<const iovec> parts) {
  if (!sealing_) {
    const ssize_t n = send_parts(socket_, parts);
    if (n > 0) sent_bytes_ += static_cast<std::size_t>(n);
    return n;
  }
  cursor from(parts);
  while (flush() && from.left_bytes() > 0) sealing_->out.take(from);
  const std::size_t taken = from.done_bytes();
  return taken > 0 || from.left_bytes() == 0 ? static_cast<ssize_t>(taken) : -1;
}

bool stream::has_unsent() const noexcept {
  return sealing_ && !sealing_->out.unsent().empty();
}

bool stream::flush() {
  if (!sealing_) return true;
  for (;;) {
    const std::span<const std::byte> rest = sealing_->out.unsent();
    if (rest.empty()) return true;
    const ssize_t n = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    sealing_->out.sent(static_cast<std::size_t>(n));
    sent_bytes_ += static_cast<std::size_t>(n);
  }
}

void stream::seal_last(std::vector<std::byte>& bytes) {
  if (!sealing_) return;
  outgoing& out = sealing_->out;
  std::vector<std::byte> sealed;
  const iovec all{bytes.data(), bytes.size()};
  cursor from(std::span(&all, 1));
  for (;;) {
    const std::span<const std::byte> rest = out.unsent();
    sealed.insert(sealed.end(), rest.begin(), rest.end());
    out.sent(rest.size());
    if (from.left_bytes() == 0) break;
    out.take(from);
  }
  bytes = std::move(sealed);
}

ssize_t stream::receive(std::span<const iovec> space) {
  if (sealing_) return receive_sealed(space);
  const ssize_t n = take(socket_, space);
  if (n > 0) received_bytes_ += static_cast<std::size_t>(n);
  return n;
}

ssize_t stream::receive_sealed(std::span<const iovec> space) {
  incoming& in = sealing_->in;
  cursor to(space);
  bool drained = false;
  for (;;) {
    in.open(to);
    const auto opened = static_cast<ssize_t>(to.done_bytes());
    if (in.is_broken()) {
      errno = EBADMSG;
      return opened > 0 ? opened : -1;
    }
    if (to.left_bytes() == 0 || in.holds_more()) return opened;
    errno = sealing_->failure != 0 ? sealing_->failure : EAGAIN;
    if (drained || sealing_->failure != 0) return opened > 0 ? opened : -1;
    const std::span<std::byte> some = in.space();
    const ssize_t n = ::recv(socket_, some.data(), some.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return opened;  // the end is reported by the next call where something was opened
    if (n < 0) {
      // The kernel reports an error only once.
      if (errno != EAGAIN && errno != EWOULDBLOCK) sealing_->failure = errno;
      drained = true;
      continue;
    }
    in.received(static_cast<std::size_t>(n));
    received_bytes_ += static_cast<std::size_t>(n);
    drained = static_cast<std::size_t>(n) < some.size();
  }
}

bool stream::holds_more() const noexcept {
  if (!sealing_) return false;
  return sealing_->in.holds_more() || sealing_->in.is_broken() || sealing_->failure != 0;
}

std::string stream::describe(int number) const {
  if (sealing_ && sealing_->in.is_broken() && number == EBADMSG) return sealing_->in.why();
  const error_code why(number, boost::system::system_category());
  const std::string lost = detail::lost_packets_text(why);
  if (lost.empty()) return why.message();
  tcp_info now{};
  socklen_t bytes = sizeof now;
  const bool known = ::getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &now, &bytes) == 0;
  if (!known || now.tcpi_pmtu <= common_mtu) return lost;
  return fmt::format("{}, or a link on the path drops packets of {} bytes (MTU)", lost,
                     now.tcpi_pmtu);
}

}  // namespace tandem::sealed
