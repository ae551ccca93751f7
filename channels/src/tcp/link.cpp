#include "tcp/link.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <tandem/detail/quiet.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::tcp {
namespace {

using detail::quiet;
constexpr int reads_per_turn = 16;       // then other channels of the loop get their turn
constexpr int polls_before_arming = 64;  // about 20 us; then the kernel's event queue is cheaper
// Of a frame that is half written when the channel closes. Its operation ends at once, so the rest
// of the frame is copied; the default chunk fits.
constexpr std::size_t max_copied_bytes = std::size_t{4} << 20;
constexpr std::chrono::seconds drain_limit{2};
constexpr std::chrono::seconds stall_timeout{1};  // how long a late send may make no progress

}  // namespace

link::link(sealed::connection over, const protocol::limits& agreed, protocol::identity who,
           std::chrono::steady_clock::duration operation_timeout)
    : pending_owner(over.socket.get_executor()),
      pollable(over.socket.get_executor()),
      socket_(std::move(over.socket)),
      bytes_(socket_.native_handle(), over.seal),
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

void link::flush() {
  if (write_blocked_ || write_ended_) return;
  if (writer_.write_all(bytes_)) return;
  write_blocked_ = true;
  asio::co_spawn(socket_.get_executor(), write_loop(), [self = shared_from_this()](auto...) {});
}

asio::awaitable<void> link::write_loop() {
  while (write_blocked_ && !write_ended_) {
    const auto [failure] = co_await socket_.async_wait(asio::socket_base::wait_write, quiet);
    if (failure || write_ended_) break;
    write_blocked_ = !writer_.write_all(bytes_);
    // Not completed here: a completion might start a second write loop.
    complete_soon();
  }
}

void link::read_ready() {
  using outcome = frame_reader::outcome;
  outcome result = outcome::more;
  for (int i = 0; i < reads_per_turn && !read_ended_ && result == outcome::more; ++i) {
    result = reader_.read_some(bytes_);
    if (result == outcome::ended) on_connection_lost(reader_.why());
    if (result == outcome::peer_failed) on_peer_failure();
    if (result == outcome::protocol_violation) protocol_violation();
    if (result == outcome::close) on_close();
  }
  flush();
  complete_done();
}

void link::arm() {
  if (armed_ || read_ended_) return;
  armed_ = true;
  const auto on_readable = [self = shared_from_this()](error_code failure) {
    self->armed_ = false;
    if (failure || self->read_ended_) return;
    self->empty_polls_ = 0;
    self->read_ready();
    if (!self->loop().is_polling()) self->arm();
  };
  if (bytes_.holds_more()) {
    asio::post(socket_.get_executor(),
               std::bind(on_readable, error_code()));  // buffered: the kernel does not report it
  } else {
    socket_.async_wait(asio::socket_base::wait_read, on_readable);
  }
}

bool link::poll() {
  if (armed_ || read_ended_) return false;
  const auto self = shared_from_this();
  const std::uint64_t before = bytes_.received_bytes();
  read_ready();
  if (bytes_.received_bytes() != before || read_ended_) {
    empty_polls_ = 0;
    return true;
  }
  if (++empty_polls_ >= polls_before_arming) arm();
  return false;
}

/// Within a job, rank 0 may know which rank failed first; a channel without a job has only this
/// error.
void link::on_peer_failure() {
  if (lost_) {
    on_connection_lost("it closed the channel after an error");
  } else {
    fail(error(errc::peer_closed, "the peer closed the channel after an error",
               "see the peer's last output"),
         false);
  }
}

void link::on_close() {
  // The peer reads no more: a half-written frame stays incomplete.
  write_ended_ = read_ended_ = true;
  writer_.drop();
  timer_.cancel();
  work_ = {};
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

void link::on_connection_lost(const std::string& why) {
  if (closed_ || read_ended_) return;
  read_ended_ = write_ended_ = true;
  const int peer = session_.who().peer;
  const std::string who = peer >= 0 ? fmt::format("rank {}", peer) : "the peer";
  const error reason(errc::peer_lost, fmt::format("{} is gone: {}", who, why),
                     fmt::format("see the last output of {}", who));
  log(log_level::info, "tcp", reason.what());
  if (reader_.is_ack_timeout() && silent_) lost_ = std::exchange(silent_, nullptr);
  if (lost_ && lost_(reason)) return;
  fail(reason, false);
}

void link::protocol_violation() {
  read_ended_ = write_ended_ = true;
  const error reason(errc::protocol_violation, "invalid data from the peer: " + reader_.why(),
                     "is the peer another program or another version?");
  log(log_level::warning, "tcp", reason.what());
  fail(reason, false);
}

void link::fail(const error& reason, bool send_close) {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  reader_.drop();
  const bool sends_close = send_close && !write_ended_ && writer_.rest_bytes() <= max_copied_bytes;
  std::vector<std::byte> final_bytes;
  if (sends_close) writer_.append_rest(final_bytes);
  writer_.drop();
  session_.fail(reason);
  timer_.cancel();
  work_ = {};
  error_code ignored;
  if (sends_close) {
    protocol::frame close_frame;
    close_frame.type = protocol::frame_type::close;
    close_frame.flags = reason.code() == errc::channel_closed ? 0 : protocol::after_error;
    protocol::wire_frame wire;
    protocol::encode(close_frame, wire);
    final_bytes.insert(final_bytes.end(), wire.begin(), wire.end());
    bytes_.seal_last(final_bytes);
    const ssize_t n = ::send(socket_.native_handle(), final_bytes.data(), final_bytes.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    write_ended_ = read_ended_ = true;
    socket_.cancel(ignored);
    asio::co_spawn(
        socket_.get_executor(),
        drain_and_close(std::move(final_bytes), static_cast<std::size_t>(std::max<ssize_t>(n, 0))),
        [self](auto...) {});
  } else {
    write_ended_ = read_ended_ = true;
    socket_.close(ignored);
  }
  complete_soon();
}

/// Closing a socket with unread bytes resets the connection, which can destroy data that the peer
/// has not read yet; so bytes are read and dropped until the peer closes, for a bounded time.
/// First, what the kernel did not take is written: the rest of a frame, and the close frame.
asio::awaitable<void> link::drain_and_close(std::vector<std::byte> final_bytes,
                                            std::size_t sent_bytes) {
  timer_.expires_after(drain_limit);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self) return;
    error_code ignored;
    self->socket_.close(ignored);
  });
  co_await asio::async_write(socket_, asio::buffer(final_bytes) + sent_bytes, quiet);
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  std::array<std::byte, 4096> dropped;
  for (;;) {
    const auto [failure, n] = co_await socket_.async_read_some(asio::buffer(dropped), quiet);
    if (failure) break;
  }
  timer_.cancel();
  socket_.close(ignored);
}

void link::complete_done() {
  while (operation* op = session_.pop_done()) op->complete(*op);
}

/// Operations complete on the executor and never inside the call that started them.
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
    if (found.stuck && self->bytes_.sent_bytes() == self->sent_when_late_) {
      self->fail(error(errc::timed_out, "the peer accepts no more data",
                       "is the peer stopped, or the network cut?"),
                 false);
    }
    // The current piece has to be completed; while bytes move, the channel is alive.
    self->sent_when_late_ = found.stuck ? self->bytes_.sent_bytes() : no_late_send;
    if (found.stuck) found.next = std::min(found.next, now + stall_timeout);
    self->arm_timer(found.next);
    self->flush();
    self->complete_done();
  });
}

void link::abandon() noexcept {
  const auto self = weak_from_this().lock();
  closed_ = read_ended_ = write_ended_ = true;
  work_ = {};
  writer_.drop();
  while (operation* op = session_.pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

}  // namespace tandem::tcp
