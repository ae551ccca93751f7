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
constexpr std::chrono::seconds stuck_limit{1};  // without progress of a late send's current piece
/// Sends in a row before a fence. A fence waits for the cache lines of the previous send to come
/// from the peer's core; without it they are fetched while the next record is written.
constexpr unsigned most_sends_unsettled = 8;

}  // namespace

link::link(guest_socket socket, int side, single_copy copies, const protocol::limits& agreed,
           protocol::identity who, std::chrono::steady_clock::duration operation_timeout)
    : pending_owner(socket.get_executor()),
      pollable(socket.get_executor(), look::reads_memory),
      socket_(std::move(socket)),
      mine_(socket_.shared.words(side)),
      theirs_(socket_.shared.words(1 - side)),
      timer_(socket_.get_executor()),
      peer_process_(std::make_shared<process_watch>(socket_.get_executor())),
      session_(agreed, std::move(who), operation_timeout),
      out_(session_, socket_.shared, side, copies),
      in_(session_, socket_.shared, side, pid_of_peer(socket_), copies) {
  socket_.non_blocking(true);
  if (copies != single_copy::off) peer_memory::introduce(mine_);
}

link::~link() {
  leave(parting::silent);
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
  if (op.what == operation::kind::send && ++sends_unsettled_ >= most_sends_unsettled) settle();
  if (!write_ended_ && out_.send_at_once(op)) {
    ring_bell(wakes_for_records);
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

bool link::linger(operation& op) {
  settle();
  if (!loop().may_linger() || !lingering_.may_try()) return false;
  for (int looks = 0; looks < looks_while_lingering && !read_ended_; ++looks) {
    if (!has_news()) continue;
    move(&op);
    const bool is_over = op.is_over() && session_.take_if_done(op);
    complete_soon();
    if (is_over) return lingering_.caught();
  }
  return lingering_.missed();
}

void link::look() {
  if (!loop().is_polling() || read_ended_ || !has_news()) return;
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
void link::ring_bell(std::uint32_t for_what) noexcept {
  owed_bell_ |= for_what;
  if (!loop().is_polling()) return settle();
  if ((theirs_.asleep.load(std::memory_order_relaxed) & for_what) != 0) wake_peer();
}

void link::settle() noexcept {
  sends_unsettled_ = 0;
  if (owed_bell_ == 0) return;
  detail::full_fence();
  const std::uint32_t asleep = theirs_.asleep.load(std::memory_order_relaxed);
  if ((asleep & std::exchange(owed_bell_, 0)) != 0) wake_peer();
}

/// Rings once per block: the mask is 0 until the peer blocks again.
void link::wake_peer() noexcept {
  if (theirs_.asleep.exchange(0, std::memory_order_acq_rel) != 0) ring();
}

void link::ring() noexcept {
  const char bell = 1;
  ::send(socket_.native_handle(), &bell, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void link::flush() {
  if (write_ended_) return;
  if (out_.write_all()) ring_bell(wakes_for_records);
  if (out_.is_broken()) return broken("it acknowledged more than was written");
  // Blocked already, and from now on also on progress: publish the wider mask.
  if (is_asleep_ && out_.waits()) {
    is_asleep_ = false;
    arm();
  }
}

bool link::has_news() const noexcept {
  return in_.has_some() || out_.may_go_on();
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
  if (in_.take_progress() && !read_ended_) ring_bell(wakes_for_progress);
}

void link::take(frames_in::outcome came) {
  using outcome = frames_in::outcome;
  if (came == outcome::more || came == outcome::drained) return;
  // A handler may drop the last reference while callers of this link are on the stack.
  asio::post(socket_.get_executor(), [self = shared_from_this()] {});
  if (came == outcome::ended) vanished(in_.why());
  if (came == outcome::broken) broken(in_.why());
  if (came == outcome::parted) conclude();
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
  switch (theirs_.left.load(std::memory_order_acquire)) {
    case parting::goodbye:
      return heard_goodbye();
    case parting::in_failure:
      return heard_failure();
    default:
      return vanished("its connection ended without an orderly close");
  }
}

/// Drains the doorbell bytes, which carry no data. False: the peer is gone.
bool link::hear_socket() {
  std::array<std::byte, 64> ignored;
  const ssize_t n = ::recv(socket_.native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void link::watch() {
  socket_.async_wait(guest_socket::wait_read, [self = shared_from_this()](error_code failure) {
    if (failure || self->read_ended_) return;
    if (!self->hear_socket()) {
      self->read_to_end();
      self->complete_done();
      return;
    }
    if (self->bell_) self->bell_();
    self->wake();
    if (!self->read_ended_) self->watch();
  });
}

void link::wake() {
  is_asleep_ = false;
  mine_.asleep.store(0, std::memory_order_relaxed);
  progress();
  if (!loop().is_polling()) arm();
}

void link::arm() {
  settle();
  if (is_asleep_ || read_ended_) return;
  is_asleep_ = true;
  const std::uint32_t what = out_.waits() ? wakes_for_progress : 0;
  mine_.asleep.store(wakes_for_records | what, std::memory_order_relaxed);
  detail::full_fence();  // pairs with that of `flush_doorbell`
  if (!has_news() || look_posted_) return;
  look_posted_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->look_posted_ = false;
    if (!self->read_ended_) self->wake();
  });
}

bool link::poll() {
  settle();
  if (is_asleep_) {
    is_asleep_ = false;
    mine_.asleep.store(0, std::memory_order_relaxed);
  }
  if (read_ended_ || !has_news()) return false;
  const auto self = shared_from_this();
  progress();
  return true;
}

/// In a job the fabric knows the rank that failed first and reports it; between two ends alone this
/// is the only report.
void link::heard_failure() {
  if (lost_) {
    vanished("it gave up after an error");
  } else {
    fail(error(errc::peer_closed, "the peer gave up after an error", "see the peer's last output"),
         false);
  }
}

void link::heard_goodbye() {
  write_ended_ = read_ended_ = true;
  out_.drop();
  protocol::frame close_frame;
  close_frame.type = protocol::frame_type::goodbye;
  session_.handle(close_frame);
  timer_.cancel();
  peer_process_->stop();
  work_ = {};
  error_code ignored;
  socket_.close(ignored);
}

void link::vanished(const std::string& how) {
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

void link::broken(const std::string& why) {
  read_ended_ = write_ended_ = true;
  const error reason(errc::protocol_violation, "the peer violated the protocol: " + why,
                     "is the peer another version of Tandem?");
  log(log_level::warning, "shm", reason.what());
  fail(reason, false);
}

/// Publishes how this end closes: from here on the peer discards what it reads from this process.
void link::leave(parting how) noexcept {
  if (!origin_.is_here()) return;
  parting none = parting::none;
  mine_.left.compare_exchange_strong(none, how, std::memory_order_acq_rel);
}

void link::fail(const error& reason, bool send_close) {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  const parting state =
      reason.code() == errc::channel_closed ? parting::goodbye : parting::in_failure;
  leave(send_close && !write_ended_ ? state : parting::silent);
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
    if (found.stuck && self->out_.moved() == self->moved_when_late_) {
      self->fail(error(errc::timed_out, "the peer takes no more bytes", "is the peer stopped?"),
                 false);
    }
    // The current piece has to be finished; while it makes progress, the channel stays open.
    self->moved_when_late_ = found.stuck ? self->out_.moved() : none_late;
    if (found.stuck) found.next = std::min(found.next, now + stuck_limit);
    self->arm_timer(found.next);
    self->flush();
    self->complete_done();
  });
}

void link::abandon() noexcept {
  const auto self = weak_from_this().lock();
  leave(parting::silent);
  closed_ = read_ended_ = write_ended_ = true;
  work_ = {};
  out_.drop();
  while (operation* op = session_.pop_any()) {
    if (op->destroy != nullptr) op->destroy(*op);
  }
}

}  // namespace tandem::shm
