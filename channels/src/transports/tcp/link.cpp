#include "transports/tcp/link.hpp"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <tandem/detail/quiet.hpp>
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

}  // namespace

link::link(sealed::connection over, const protocol::limits& agreed, protocol::identity who,
           std::chrono::steady_clock::duration operation_timeout)
    : link_base(over.socket.get_executor(), "tcp", session_),
      pollable(over.socket.get_executor()),
      socket_(std::move(over.socket)),
      bytes_(socket_.native_handle(), over.seal),
      session_(agreed, std::move(who), operation_timeout) {
  socket_.non_blocking(true);
}

void link::run() {
  keep_loop_running();
  arm();
}

bool link::start(operation& op) {
  session_.start(op);
  flush();
  return is_done(op);
}

void link::flush() {
  if (write_blocked_ || write_ended_) return;
  if (writer_.write_all(bytes_)) return;
  write_blocked_ = true;
  asio::co_spawn(get_executor(), write_loop(), [keep = self()](auto...) {});
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
    take(result);
  }
  flush();
  complete_done();
}

void link::take(frame_reader::outcome came) {
  using outcome = frame_reader::outcome;
  if (came == outcome::more || came == outcome::drained) return;
  if (came == outcome::close) return on_close();
  end_io();
  if (came == outcome::ended) peer_lost(reader_.why(), {}, reader_.is_ack_timeout());
  if (came == outcome::peer_failed) peer_failed();
  if (came == outcome::protocol_violation) protocol_violation(reader_.why());
}

void link::arm() {
  if (armed_ || read_ended_) return;
  armed_ = true;
  const auto on_readable = [self = self()](error_code failure) {
    self->require_loop();
    self->armed_ = false;
    if (failure || self->read_ended_) return;
    self->empty_polls_ = 0;
    self->read_ready();
    if (!self->loop().is_polling()) self->arm();
  };
  if (bytes_.holds_more()) {
    asio::post(get_executor(),
               std::bind(on_readable, error_code()));  // buffered: the kernel does not report it
  } else {
    socket_.async_wait(asio::socket_base::wait_read, on_readable);
  }
}

bool link::poll() {
  if (armed_ || read_ended_) return false;
  const auto keep = shared_from_this();
  const std::uint64_t before = bytes_.received_bytes();
  read_ready();
  if (bytes_.received_bytes() != before || read_ended_) {
    empty_polls_ = 0;
    return true;
  }
  if (++empty_polls_ >= polls_before_arming) arm();
  return false;
}

/// The peer reads no more: a half-written frame stays incomplete.
void link::on_close() {
  end_io();
  writer_.drop();
  let_loop_end();
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

void link::stop(const error& reason, bool notify_peer) {
  reader_.drop();
  const bool sends_close = notify_peer && !write_ended_ && writer_.rest_bytes() <= max_copied_bytes;
  std::vector<std::byte> final_bytes;
  if (sends_close) writer_.append_rest(final_bytes);
  writer_.drop();
  session_.fail(reason);
  end_io();
  error_code ignored;
  if (!sends_close) {
    socket_.close(ignored);
    return;
  }
  protocol::wire_frame wire;
  protocol::encode(protocol::close_frame_for(reason), wire);
  final_bytes.insert(final_bytes.end(), wire.begin(), wire.end());
  bytes_.seal_last(final_bytes);
  const ssize_t n = ::send(socket_.native_handle(), final_bytes.data(), final_bytes.size(),
                           MSG_NOSIGNAL | MSG_DONTWAIT);
  socket_.cancel(ignored);
  asio::co_spawn(
      get_executor(),
      drain_and_close(std::move(final_bytes), static_cast<std::size_t>(std::max<ssize_t>(n, 0))),
      [keep = self()](auto...) {});
}

/// Closing a socket with unread bytes resets the connection, which can destroy data that the peer
/// has not read yet; so bytes are read and dropped until the peer closes, for a bounded time.
/// First, what the kernel did not take is written: the rest of a frame, and the close frame.
asio::awaitable<void> link::drain_and_close(std::vector<std::byte> final_bytes,
                                            std::size_t sent_bytes) {
  asio::steady_timer limit(get_executor(), drain_limit);
  limit.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto link_here = std::static_pointer_cast<link>(weak.lock());
    if (cancelled || !link_here) return;
    error_code ignored;
    link_here->socket_.close(ignored);
  });
  co_await asio::async_write(socket_, asio::buffer(final_bytes) + sent_bytes, quiet);
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  std::array<std::byte, 4096> dropped;
  for (;;) {
    const auto [failure, n] = co_await socket_.async_read_some(asio::buffer(dropped), quiet);
    if (failure) break;
  }
  limit.cancel();
  socket_.close(ignored);
}

bool link::abandon_io() noexcept {
  end_io();
  writer_.drop();
  return true;
}

}  // namespace tandem::tcp
