#include "support/packet_link.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <cerrno>
#include <cstring>
#include <tandem/async.hpp>
#include <tandem/detail/quiet.hpp>
#include <utility>

namespace tandem::test {
namespace {

constexpr int packets_per_turn = 16;
constexpr std::chrono::seconds close_limit{2};

}  // namespace

packet_link::packet_link(socket over, const protocol::limits& agreed, const settings& options)
    : link_base(over.get_executor(), "packets", session_),
      socket_(std::move(over)),
      session_(agreed, {-1, -1, "packets"}, options.operation_timeout),
      received_(protocol::frame_bytes + std::max(agreed.eager_bytes, agreed.chunk_bytes)) {}

void packet_link::run() {
  keep_loop_running();
  wait_readable();
}

bool packet_link::start(operation& op) {
  session_.start(op);
  flush();
  return is_done(op);
}

void packet_link::flush() {
  while (!ended_ && !waits_writable_) {
    protocol::outgoing_frame out;
    if (!next_ && !session_.next(out)) return;
    if (!next_) next_ = out;
    protocol::wire_frame header;
    protocol::encode(next_->header, header);
    if (!write(header, next_->payload)) return wait_writable();
    session_.sent(*std::exchange(next_, std::nullopt));
    ++sent_packets_;
  }
}

/// False: the socket is full. Any other failure is found by reading.
bool packet_link::write(const protocol::wire_frame& header, const_view payload) {
  std::array<iovec, 2> parts{{{const_cast<std::byte*>(header.data()), header.size()},
                              {const_cast<void*>(payload.data), payload.bytes}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t n = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

void packet_link::wait_writable() {
  waits_writable_ = true;
  socket_.async_wait(socket::wait_write, [self = self()](error_code failure) {
    self->waits_writable_ = false;
    if (failure) return;
    self->flush();
    self->complete_done();
  });
}

void packet_link::wait_readable() {
  socket_.async_wait(socket::wait_read, [self = self()](error_code failure) {
    if (failure || self->ended_) return;
    self->read_ready();
    if (!self->ended_) self->wait_readable();
  });
}

void packet_link::read_ready() {
  for (int i = 0; i < packets_per_turn && !ended_; ++i) {
    const ssize_t n =
        ::recv(socket_.native_handle(), received_.data(), received_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) break;
    // ECONNRESET: the peer closed with packets unread; those that it sent before can still be read.
    if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (n <= 0) {
      ended_ = true;
      peer_lost("its connection ended without an orderly close");
    } else {
      take(std::span(received_).first(static_cast<std::size_t>(n)));
    }
  }
  flush();
  complete_done();
}

void packet_link::take(std::span<const std::byte> packet) {
  if (packet.size() < protocol::frame_bytes) return violated("a packet is shorter than a frame");
  std::string why;
  const std::optional<protocol::frame> header =
      protocol::decode(packet.first<protocol::frame_bytes>(), why);
  if (!header) return violated(why);
  if (protocol::carries_payload(header->type)) {
    const std::span<const std::byte> payload = packet.subspan(protocol::frame_bytes);
    if (payload.size() != header->payload_bytes) return violated("a packet has another length");
    protocol::incoming_payload where;
    if (!session_.begin(*header, where)) return violated(session_.violation());
    if (where.target != nullptr && !payload.empty())
      std::memcpy(where.target, payload.data(), payload.size());
    where.received = payload.size();
    session_.end(where);
  } else if (header->type == protocol::frame_type::close &&
             header->flags == protocol::after_error) {
    ended_ = true;
    peer_failed();
  } else if (!session_.handle(*header)) {
    violated(session_.violation());
  } else if (session_.received_close()) {
    on_close();
  }
}

void packet_link::violated(const std::string& why) {
  ended_ = true;
  protocol_violation(why);
}

void packet_link::on_close() {
  ended_ = true;
  let_loop_end();
  error_code ignored;
  socket_.close(ignored);
}

void packet_link::stop(const error& reason, bool notify_peer) {
  const bool sends_close = notify_peer && !std::exchange(ended_, true);
  next_.reset();
  session_.fail(reason);
  if (!sends_close) {
    error_code ignored;
    socket_.close(ignored);
    return;
  }
  protocol::wire_frame header;
  protocol::encode(protocol::close_frame_for(reason), header);
  asio::co_spawn(get_executor(),
                 with_deadline(close_limit, send_close(header), "send of the close frame"),
                 [self = self()](std::exception_ptr) {
                   error_code ignored;
                   self->socket_.close(ignored);
                 });
}

asio::awaitable<void> packet_link::send_close(protocol::wire_frame header) {
  while (!write(header, {})) {
    co_await socket_.async_wait(socket::wait_write, detail::quiet);
  }
}

bool packet_link::abandon_io() noexcept {
  ended_ = true;
  return true;
}

}  // namespace tandem::test
