#include "transports/shm/link.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <tandem/detail/fence.hpp>
#include <utility>

namespace tandem::shm {
namespace {

// Limits of one turn, so that other channels of the loop get theirs and the peer learns of
// progress.
constexpr int records_per_turn = 64;
constexpr std::uint64_t bytes_per_turn = std::uint64_t{1} << 20;
/// Sends in a row before a fence. A fence waits for the cache lines of the previous send to come
/// from the peer's core; without it they are fetched while the next record is written.
constexpr unsigned max_unfenced_sends = 8;

}  // namespace

link::link(control_socket socket, int side, single_copy copies, const protocol::limits& agreed,
           protocol::identity who, std::chrono::steady_clock::duration operation_timeout)
    : link_base(socket.get_executor(), "shm", session_),
      pollable(socket.get_executor(), poll_cost::memory_read),
      socket_(std::move(socket)),
      local_(socket_.shared.control(side)),
      remote_(socket_.shared.control(1 - side)),
      peer_process_(std::make_shared<process_watch>(get_executor())),
      session_(agreed, std::move(who), operation_timeout),
      out_(session_, socket_.shared, side, copies),
      in_(session_, socket_.shared, side, pid_of_peer(socket_), copies) {
  socket_.non_blocking(true);
  if (copies != single_copy::off) peer_memory::publish_probe(local_);
}

link::~link() {
  set_close_state(close_state::abrupt);
}

void link::run() {
  keep_loop_running();
  in_.probe();
  watch();
  peer_process_->start(pid_of_peer(socket_), [weak = weak_from_this()] {
    const auto link_here = std::static_pointer_cast<link>(weak.lock());
    if (!link_here || link_here->read_ended_) return;
    link_here->read_to_end();
    link_here->complete_done();
  });
  arm();
}

bool link::start(operation& op) {
  // A loop that only sends might never reach another fence. A receive gets there later anyway.
  if (op.what == operation::kind::send && ++unfenced_sends_ >= max_unfenced_sends) flush_doorbell();
  if (!write_ended_ && out_.try_send_eager(op)) {
    notify_peer(wakes_for_records);
    return true;
  }
  session_.start(op);
  flush();
  return is_done(op);
}

bool link::spin_wait(operation& op) {
  flush_doorbell();
  if (!loop().may_spin() || !spin_wait_policy_.may_spin()) return false;
  for (int polls = 0; polls < polls_per_spin_wait && !read_ended_; ++polls) {
    if (!can_progress()) continue;
    move(&op);
    const bool is_over = op.is_over() && session_.take_if_done(op);
    complete_soon();
    if (is_over) return spin_wait_policy_.record_hit();
  }
  return spin_wait_policy_.record_miss();
}

void link::make_progress() {
  if (!loop().is_polling() || read_ended_ || !can_progress()) return;
  const auto keep = shared_from_this();
  advance();
}

/// Wakes the peer if it is blocked on this (see `link`). The fence waits until the stores have left
/// this core, so a polling loop defers it to the next poll; a peer that is already blocked is seen
/// without it.
void link::notify_peer(std::uint32_t for_what) noexcept {
  pending_wake_ |= for_what;
  if (!loop().is_polling()) return flush_doorbell();
  if ((remote_.wake_mask.load(std::memory_order_relaxed) & for_what) != 0) wake_peer();
}

void link::flush_doorbell() noexcept {
  unfenced_sends_ = 0;
  if (pending_wake_ == 0) return;
  detail::full_fence();
  const std::uint32_t wake_mask = remote_.wake_mask.load(std::memory_order_relaxed);
  if ((wake_mask & std::exchange(pending_wake_, 0)) != 0) wake_peer();
}

/// Rings once per block: the mask is 0 until the peer blocks again.
void link::wake_peer() noexcept {
  if (remote_.wake_mask.exchange(0, std::memory_order_acq_rel) != 0) ring_doorbell();
}

void link::ring_doorbell() noexcept {
  const char bell = 1;
  ::send(socket_.native_handle(), &bell, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void link::flush() {
  if (write_ended_) return;
  if (out_.write_all()) notify_peer(wakes_for_records);
  if (out_.is_broken()) {
    end_io();
    return protocol_violation("it acknowledged more than was written");
  }
  // Blocked already, and from now on also on progress: publish the wider mask.
  if (is_armed_ && out_.awaits_peer()) {
    is_armed_ = false;
    arm();
  }
}

bool link::can_progress() const noexcept {
  return in_.has_record() || out_.can_progress();
}

void link::advance() {
  move();
  complete_done();
}

/// @param until  stops when this operation is complete: its caller posts more in a moment, and what
///   arrived before that receive would be copied twice.
void link::move(operation* until) {
  using outcome = frames_in::outcome;
  out_.take_acknowledgements();
  outcome came = outcome::more;
  const std::uint64_t enough = in_.received_bytes() + bytes_per_turn;
  for (int i = 0; i < records_per_turn && !read_ended_ && came == outcome::more; ++i) {
    came = in_.read_one();
    take(came);
    if (in_.received_bytes() >= enough || (until != nullptr && until->is_over())) break;
  }
  flush();
  if (in_.take_progress() && !read_ended_) notify_peer(wakes_for_progress);
}

void link::take(frames_in::outcome came) {
  using outcome = frames_in::outcome;
  if (came == outcome::more || came == outcome::drained) return;
  // A handler may drop the last reference while callers of this link are on the stack.
  asio::post(get_executor(), [keep = shared_from_this()] {});
  if (came == outcome::peer_closed) return conclude();
  end_io();
  if (came == outcome::ended) peer_lost(in_.why());
  if (came == outcome::protocol_violation) protocol_violation(in_.why());
}

/// After the peer has gone: reads what it wrote before that, at most one ring.
void link::read_to_end() {
  using outcome = frames_in::outcome;
  out_.take_acknowledgements();
  outcome came = outcome::more;
  const std::size_t max_records = socket_.shared.ring_bytes() / record_bytes;
  for (std::size_t i = 0; i < max_records && !read_ended_ && came == outcome::more; ++i) {
    came = in_.read_one();
    take(came);
  }
  if (!read_ended_) conclude();
}

/// Nothing more will arrive: ends the link according to the peer's `close_state`.
void link::conclude() {
  in_.abandon_payload();
  const close_state how = remote_.closed_as.load(std::memory_order_acquire);
  if (how == close_state::close) return on_close();
  end_io();
  if (how == close_state::after_error) return peer_failed();
  peer_lost("its connection ended without an orderly close");
}

/// Drains the doorbell bytes, which carry no data. False: the peer is gone.
bool link::drain_doorbell() {
  std::array<std::byte, 64> ignored;
  const ssize_t n = ::recv(socket_.native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void link::watch() {
  socket_.async_wait(control_socket::wait_read, [self = self()](error_code failure) {
    if (failure) return;
    self->require_loop();
    if (self->read_ended_) return;
    if (!self->drain_doorbell()) {
      self->read_to_end();
      self->complete_done();
      return;
    }
    if (self->doorbell_handler_) self->doorbell_handler_();
    self->wake();
    if (!self->read_ended_) self->watch();
  });
}

void link::wake() {
  is_armed_ = false;
  local_.wake_mask.store(0, std::memory_order_relaxed);
  advance();
  if (!loop().is_polling()) arm();
}

void link::arm() {
  flush_doorbell();
  if (is_armed_ || read_ended_) return;
  is_armed_ = true;
  const std::uint32_t what = out_.awaits_peer() ? wakes_for_progress : 0;
  local_.wake_mask.store(wakes_for_records | what, std::memory_order_relaxed);
  detail::full_fence();  // pairs with that of `flush_doorbell`
  if (!can_progress() || poll_posted_) return;
  poll_posted_ = true;
  asio::post(get_executor(), [self = self()] {
    self->require_loop();
    self->poll_posted_ = false;
    if (!self->read_ended_) self->wake();
  });
}

bool link::poll() {
  flush_doorbell();
  if (is_armed_) {
    is_armed_ = false;
    local_.wake_mask.store(0, std::memory_order_relaxed);
  }
  if (read_ended_ || !can_progress()) return false;
  const auto keep = shared_from_this();
  advance();
  return true;
}

void link::on_close() {
  end_io();
  out_.drop();
  protocol::frame close_frame;
  close_frame.type = protocol::frame_type::close;
  session_.handle(close_frame);
  peer_process_->stop();
  let_loop_end();
  error_code ignored;
  socket_.close(ignored);
}

/// Publishes how this end closes: from here on the peer discards what it reads from this process.
void link::set_close_state(close_state how) noexcept {
  if (!origin_.is_here()) return;
  close_state none = close_state::none;
  local_.closed_as.compare_exchange_strong(none, how, std::memory_order_acq_rel);
}

void link::stop(const error& reason, bool notify_peer) {
  const close_state state =
      reason.code() == errc::channel_closed ? close_state::close : close_state::after_error;
  set_close_state(notify_peer && !write_ended_ ? state : close_state::abrupt);
  end_io();
  in_.drop();
  out_.drop();
  session_.fail(reason);
  peer_process_->stop();
  error_code ignored;
  socket_.close(ignored);
}

bool link::abandon_io() noexcept {
  set_close_state(close_state::abrupt);
  end_io();
  out_.drop();
  return true;
}

}  // namespace tandem::shm
