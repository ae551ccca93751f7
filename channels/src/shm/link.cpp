#include "shm/link.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <tandem/detail/fence.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::shm {
namespace {

// Limits of one turn, so that other channels of the loop get theirs and the peer learns of
// progress.
constexpr int records_per_turn = 64;
constexpr std::uint64_t bytes_per_turn = std::uint64_t{1} << 20;
constexpr std::chrono::seconds stall_timeout{1};  // without progress of a late send's current piece
/// Sends in a row before a fence. A fence waits for the cache lines of the previous send to come
/// from the peer's core; without it they are fetched while the next record is written.
constexpr unsigned max_unfenced_sends = 8;

}  // namespace

link::link(control_socket socket, int side, single_copy copies, const protocol::limits& agreed,
           protocol::identity who, std::chrono::steady_clock::duration operation_timeout)
    : pending_owner(socket.get_executor()),
      pollable(socket.get_executor(), poll_cost::memory_read),
      socket_(std::move(socket)),
      local_(socket_.shared.control(side)),
      remote_(socket_.shared.control(1 - side)),
      timer_(socket_.get_executor()),
      peer_process_(std::make_shared<process_watch>(socket_.get_executor())),
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
  work_ = asio::prefer(socket_.get_executor(), asio::execution::outstanding_work.tracked);
  in_.probe();
  watch();
  peer_process_->start(pid_of_peer(socket_), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->read_ended_) return;
    self->read_to_end();
    self->complete_done();
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
  const bool is_done = session_.take_if_done(op);
  complete_soon();
  if (is_done) return true;
  if (op.due < timer_due_) arm_timer(op.due);
  return false;
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
  const auto self = shared_from_this();
  progress();
}

void link::cancel(operation& op) {
  session_.cancel(op);
  flush();
  complete_soon();
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
  if (out_.is_broken()) return protocol_violation("it acknowledged more than was written");
  // Blocked already, and from now on also on progress: publish the wider mask.
  if (is_armed_ && out_.awaits_peer()) {
    is_armed_ = false;
    arm();
  }
}

bool link::can_progress() const noexcept {
  return in_.has_record() || out_.can_progress();
}

void link::progress() {
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
  asio::post(socket_.get_executor(), [self = shared_from_this()] {});
  if (came == outcome::ended) on_connection_lost(in_.why());
  if (came == outcome::protocol_violation) protocol_violation(in_.why());
  if (came == outcome::peer_closed) conclude();
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
  switch (remote_.closed_as.load(std::memory_order_acquire)) {
    case close_state::close:
      return on_close();
    case close_state::after_error:
      return on_peer_failure();
    default:
      return on_connection_lost("its connection ended without an orderly close");
  }
}

/// Drains the doorbell bytes, which carry no data. False: the peer is gone.
bool link::drain_doorbell() {
  std::array<std::byte, 64> ignored;
  const ssize_t n = ::recv(socket_.native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void link::watch() {
  socket_.async_wait(control_socket::wait_read, [self = shared_from_this()](error_code failure) {
    if (failure || self->read_ended_) return;
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
  progress();
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
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
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
  const auto self = shared_from_this();
  progress();
  return true;
}

/// In a job the fabric knows the rank that failed first and reports it; between two ends alone this
/// is the only report.
void link::on_peer_failure() {
  if (lost_) {
    on_connection_lost("it gave up after an error");
  } else {
    fail(error(errc::peer_closed, "the peer gave up after an error", "see the peer's last output"),
         false);
  }
}

void link::on_close() {
  write_ended_ = read_ended_ = true;
  out_.drop();
  protocol::frame close_frame;
  close_frame.type = protocol::frame_type::close;
  session_.handle(close_frame);
  timer_.cancel();
  peer_process_->stop();
  work_ = {};
  error_code ignored;
  socket_.close(ignored);
}

void link::on_connection_lost(const std::string& how) {
  if (closed_ || read_ended_) return;
  read_ended_ = write_ended_ = true;
  const int peer = session_.who().peer;
  const std::string who = peer >= 0 ? fmt::format("rank {}", peer) : "the peer";
  const error reason(errc::peer_lost, fmt::format("{} is gone: {}", who, how),
                     fmt::format("see the last output of {}", who));
  log(log_level::info, "shm", reason.what());
  if (lost_ && lost_(reason)) return;
  fail(reason, false);
}

void link::protocol_violation(const std::string& why) {
  read_ended_ = write_ended_ = true;
  const error reason(errc::protocol_violation, "the peer violated the protocol: " + why,
                     "is the peer another version of Tandem?");
  log(log_level::warning, "shm", reason.what());
  fail(reason, false);
}

/// Publishes how this end closes: from here on the peer discards what it reads from this process.
void link::set_close_state(close_state how) noexcept {
  if (!origin_.is_here()) return;
  close_state none = close_state::none;
  local_.closed_as.compare_exchange_strong(none, how, std::memory_order_acq_rel);
}

void link::fail(const error& reason, bool send_close) {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  const close_state state =
      reason.code() == errc::channel_closed ? close_state::close : close_state::after_error;
  set_close_state(send_close && !write_ended_ ? state : close_state::abrupt);
  write_ended_ = read_ended_ = true;
  in_.drop();
  out_.drop();
  session_.fail(reason);
  timer_.cancel();
  peer_process_->stop();
  work_ = {};
  error_code ignored;
  socket_.close(ignored);
  complete_soon();
}

void link::complete_done() {
  while (operation* op = session_.pop_done()) op->complete(*op);
}

/// Operations complete on the executor, never inside the call that started them.
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
    if (found.stuck && self->out_.moved() == self->progress_when_late_) {
      self->fail(error(errc::timed_out, "the peer takes no more bytes", "is the peer stopped?"),
                 false);
    }
    // The current piece has to be finished; while it makes progress, the channel stays open.
    self->progress_when_late_ = found.stuck ? self->out_.moved() : no_late_send;
    if (found.stuck) found.next = std::min(found.next, now + stall_timeout);
    self->arm_timer(found.next);
    self->flush();
    self->complete_done();
  });
}

void link::abandon() noexcept {
  const auto self = weak_from_this().lock();
  set_close_state(close_state::abrupt);
  closed_ = read_ended_ = write_ended_ = true;
  work_ = {};
  out_.drop();
  while (operation* op = session_.pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

}  // namespace tandem::shm
