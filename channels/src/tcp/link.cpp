#include "tcp/link.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::tcp {
namespace {

constexpr auto quiet = asio::as_tuple(asio::use_awaitable);
constexpr int reads_per_turn = 16;    // then other channels of the loop get theirs
constexpr int polls_until_cold = 64;  // about 20 us; then the kernel's event queue is cheaper
constexpr std::chrono::seconds linger_limit{2};
constexpr std::chrono::seconds stuck_limit{1};  // a late send's piece in hand may rest so long

std::size_t frame_total(const protocol::outgoing& out) noexcept {
  return protocol::frame_bytes + out.payload.bytes;
}

}  // namespace

link::link(asio::ip::tcp::socket socket, const protocol::limits& agreed, protocol::identity who,
           std::chrono::steady_clock::duration operation_timeout)
    : pending_owner(socket.get_executor()),
      pollable(socket.get_executor()),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      session_(agreed, std::move(who), operation_timeout) {
  socket_.non_blocking(true);
}

void link::run() {
  work_ = asio::prefer(socket_.get_executor(), asio::execution::outstanding_work.tracked);
  arm();
}

bool link::start(operation& op) {
  session_.start(op);
  flush();
  const bool is_done = session_.take_if_done(op);
  complete_soon();
  if (is_done) return true;
  if (op.due < timer_due_) arm_timer(op.due);
  return false;
}

void link::cancel(operation& op) {
  session_.cancel(op);
  flush();
  complete_soon();
}

// Writing
// -------------------------------------------------------------------------------------------

bool link::fill_batch() {
  batch_first_ = batch_size_ = 0;
  first_done_bytes_ = 0;
  std::size_t bytes = 0;
  while (batch_size_ < batch_frames && bytes < std::size_t{1} << 20) {
    protocol::outgoing& out = batch_[batch_size_];
    if (!session_.next(out)) break;
    protocol::encode(out.header, headers_[batch_size_]);
    bytes += frame_total(out);
    ++batch_size_;
  }
  return batch_size_ > 0;
}

/// False: the socket is full or broken.
bool link::write_batch() {
  std::array<iovec, 2 * batch_frames> parts;
  while (batch_first_ < batch_size_) {
    std::size_t count = 0;
    std::size_t skip = first_done_bytes_;
    for (std::size_t i = batch_first_; i < batch_size_; ++i) {
      const const_view payload = batch_[i].payload;
      if (skip < protocol::frame_bytes) {
        parts[count++] = {headers_[i].data() + skip, protocol::frame_bytes - skip};
        skip = 0;
      } else {
        skip -= protocol::frame_bytes;
      }
      if (payload.bytes > skip) {
        auto* bytes = static_cast<std::byte*>(const_cast<void*>(payload.data));
        parts[count++] = {bytes + skip, payload.bytes - skip};
      }
      skip = 0;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      advance_batch(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      // A broken socket is the reader's to report: it knows whether a goodbye came first.
      return false;
    }
  }
  return true;
}

void link::advance_batch(std::size_t bytes) {
  sent_bytes_ += bytes;
  first_done_bytes_ += bytes;
  while (batch_first_ < batch_size_ && first_done_bytes_ >= frame_total(batch_[batch_first_])) {
    first_done_bytes_ -= frame_total(batch_[batch_first_]);
    session_.sent(batch_[batch_first_]);
    ++batch_first_;
  }
}

void link::flush() {
  if (write_blocked_ || write_ended_) return;
  while (batch_first_ < batch_size_ || fill_batch()) {
    if (write_batch()) continue;
    write_blocked_ = true;
    asio::co_spawn(socket_.get_executor(), write_loop(), [self = shared_from_this()](auto...) {});
    return;
  }
}

asio::awaitable<void> link::write_loop() {
  while (write_blocked_ && !write_ended_) {
    const auto [failure] = co_await socket_.async_wait(asio::socket_base::wait_write, quiet);
    if (failure || write_ended_) break;
    while (batch_first_ < batch_size_ || fill_batch()) {
      if (!write_batch()) break;
    }
    write_blocked_ = batch_first_ < batch_size_;
    // Not from here: what is told might start a second loop beside this one.
    complete_soon();
  }
}

// Reading
// -------------------------------------------------------------------------------------------

void link::read_ready() {
  for (int i = 0; i < reads_per_turn && !read_ended_; ++i) {
    if (!read_some()) break;
  }
  flush();
  complete_done();
}

void link::arm() {
  if (armed_ || read_ended_) return;
  armed_ = true;
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](error_code failure) {
    self->armed_ = false;
    if (failure || self->read_ended_) return;
    self->empty_polls_ = 0;
    self->read_ready();
    if (!self->loop().is_polling()) self->arm();
  });
}

bool link::poll() {
  if (armed_ || read_ended_) return false;
  const auto self = shared_from_this();
  const std::uint64_t before = received_bytes_;
  read_ready();
  if (received_bytes_ != before || read_ended_) {
    empty_polls_ = 0;
    return true;
  }
  if (++empty_polls_ >= polls_until_cold) arm();
  return false;
}

/// One system call. False: nothing more to read at present.
bool link::read_some() {
  static thread_local std::array<std::byte, 64 * 1024> dropped;
  std::array<iovec, 2> parts;
  std::size_t count = 0;
  std::size_t wanted = 0;
  if (is_landing_) {
    const std::size_t left = landing_.header.payload_bytes - landing_.received;
    if (landing_.target != nullptr) {
      parts[count++] = {landing_.target + landing_.received, left};
    } else {
      parts[count++] = {dropped.data(), std::min(left, dropped.size())};
    }
    wanted += parts[0].iov_len;
    if (parts[0].iov_len == left) parts[count++] = {staging_.data(), staging_bytes};
  } else {
    parts[count++] = {staging_.data() + staged_, staging_bytes - staged_};
  }
  if (count == 2 || !is_landing_) wanted += parts[count - 1].iov_len;

  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t n = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  if (n > 0) {
    received_bytes_ += static_cast<std::uint64_t>(n);
    place(static_cast<std::size_t>(n));
    return static_cast<std::size_t>(n) == wanted;
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n < 0 && errno == EINTR) return true;
  vanished(n == 0 ? "its connection ended without a goodbye"
                  : error_code(errno, boost::system::system_category()).message());
  return false;
}

void link::place(std::size_t bytes) {
  if (is_landing_) {
    const std::size_t left = landing_.header.payload_bytes - landing_.received;
    const std::size_t mine = std::min(bytes, left);
    landing_.received += mine;
    bytes -= mine;
    if (mine == left) finish_landing();
  }
  staged_ += bytes;
  parse_staged();
}

void link::parse_staged() {
  std::size_t at = 0;
  while (staged_ - at >= protocol::frame_bytes && !read_ended_) {
    if (!take_frame(staging_.data() + at)) break;
    at += protocol::frame_bytes;
    if (!is_landing_) continue;
    const std::size_t here = std::min<std::size_t>(staged_ - at, landing_.header.payload_bytes);
    if (landing_.target != nullptr && here > 0)
      std::memcpy(landing_.target, staging_.data() + at, here);
    landing_.received = here;
    at += here;
    if (here == landing_.header.payload_bytes) finish_landing();
  }
  staged_ -= at;
  if (staged_ > 0 && at > 0) std::memmove(staging_.data(), staging_.data() + at, staged_);
}

bool link::take_frame(const std::byte* at) {
  std::string why;
  const auto header = std::span<const std::byte, protocol::frame_bytes>(at, protocol::frame_bytes);
  const std::optional<protocol::frame> f = protocol::decode(header, why);
  if (!f) {
    broken(errc::protocol_violation, std::move(why));
    return false;
  }
  if (protocol::carries_payload(f->type)) {
    is_landing_ = session_.begin(*f, landing_);
    if (!is_landing_) broken(errc::protocol_violation, session_.violation());
    return is_landing_;
  }
  const bool gave_up = f->type == protocol::frame_type::goodbye && f->flags == protocol::in_failure;
  if (gave_up && lost_) {
    vanished("it gave up after an error");
    return false;
  }
  if (!session_.handle(*f)) {
    broken(errc::protocol_violation, session_.violation());
    return false;
  }
  if (session_.peer_said_goodbye()) {
    // The peer reads no more: whatever is half written stays so.
    write_ended_ = read_ended_ = true;
    batch_first_ = batch_size_ = 0;
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    return false;
  }
  return true;
}

void link::finish_landing() {
  is_landing_ = false;
  session_.end(landing_);
}

// Ends
// ----------------------------------------------------------------------------------------------

void link::vanished(const std::string& how) {
  if (closed_ || read_ended_) return;
  read_ended_ = write_ended_ = true;
  const int peer = session_.who().peer;
  const std::string who = peer >= 0 ? fmt::format("rank {}", peer) : "the peer";
  const error reason(errc::peer_lost, fmt::format("{} is gone: {}", who, how),
                     fmt::format("see the last output of {}", who));
  log(log_level::info, "tcp", reason.what());
  if (lost_ && lost_(reason)) return;
  fail(reason, false);
}

void link::broken(errc code, std::string detail) {
  read_ended_ = write_ended_ = true;
  const error reason(code, "the peer sent what no correct peer sends: " + detail,
                     "is another program or another version at the other end?");
  log(log_level::warning, "tcp", reason.what());
  fail(reason, false);
}

void link::fail(const error& reason, bool say_goodbye) {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  is_landing_ = false;
  const bool between_frames = first_done_bytes_ == 0;
  batch_first_ = batch_size_ = 0;
  session_.fail(reason);
  timer_.cancel();
  work_ = {};
  error_code ignored;
  if (say_goodbye && between_frames && !write_ended_) {
    protocol::frame bye;
    bye.type = protocol::frame_type::goodbye;
    bye.flags = reason.code() == errc::channel_closed ? 0 : protocol::in_failure;
    protocol::wire_frame wire;
    protocol::encode(bye, wire);
    const ssize_t n =
        ::send(socket_.native_handle(), wire.data(), wire.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    write_ended_ = read_ended_ = true;
    socket_.cancel(ignored);
    asio::co_spawn(socket_.get_executor(),
                   linger(wire, static_cast<std::size_t>(std::max<ssize_t>(n, 0))),
                   [self](auto...) {});
  } else {
    write_ended_ = read_ended_ = true;
    socket_.close(ignored);
  }
  complete_soon();
}

/// Closing a socket with unread bytes resets the connection, which can destroy what the peer has
/// not read yet; so the bytes are read and dropped until the peer ends, for a bounded time. First
/// goes what the kernel had no room for of the goodbye.
asio::awaitable<void> link::linger(protocol::wire_frame goodbye, std::size_t said) {
  timer_.expires_after(linger_limit);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self) return;
    error_code ignored;
    self->socket_.close(ignored);
  });
  co_await asio::async_write(socket_, asio::buffer(goodbye) + said, quiet);
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  for (;;) {
    const auto [failure, n] = co_await socket_.async_read_some(asio::buffer(staging_), quiet);
    if (failure) break;
  }
  timer_.cancel();
  socket_.close(ignored);
}

void link::complete_done() {
  while (operation* op = session_.pop_done()) op->complete(*op);
}

/// Operations end on the executor and never inside the call that started them.
void link::complete_soon() {
  if (completion_posted_ || !session_.has_done()) return;
  completion_posted_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->completion_posted_ = false;
    self->complete_done();
  });
}

void link::arm_timer(operation::time_point when) {
  timer_due_ = when;
  if (closed_ || when == operation::time_point::max()) return;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self || self->closed_) return;
    const auto now = std::chrono::steady_clock::now();
    auto found = self->session_.expire(now);
    if (found.stuck && self->sent_bytes_ == self->sent_when_late_) {
      self->fail(error(errc::timed_out, "the peer takes no more bytes",
                       "is the peer stopped, or the network cut?"),
                 false);
    }
    // The piece in hand has to be finished; while it moves, the channel lives.
    self->sent_when_late_ = found.stuck ? self->sent_bytes_ : none_late;
    if (found.stuck) found.next = std::min(found.next, now + stuck_limit);
    self->arm_timer(found.next);
    self->flush();
    self->complete_done();
  });
}

void link::abandon() noexcept {
  const auto self = weak_from_this().lock();
  closed_ = read_ended_ = write_ended_ = true;
  work_ = {};
  batch_first_ = batch_size_ = 0;
  while (operation* op = session_.pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

// The handle
// ----------------------------------------------------------------------------------------

link_channel::link_channel(std::shared_ptr<link> over)
    : link_(std::move(over)), limits_(protocol::as_channel_limits(link_->state().agreed())) {}

link_channel::~link_channel() {
  close();
}

asio::any_io_executor link_channel::get_executor() const noexcept {
  return link_->get_executor();
}

void link_channel::fail(const error& reason) noexcept {
  link_->fail(reason, true);
}

}  // namespace tandem::tcp
