#include "verbs/wire.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs/words.hpp"

namespace tandem::verbs {
namespace {

/// Timeout for posted requests to complete, and then to be flushed.
constexpr std::chrono::milliseconds drain_limit{300};
constexpr std::chrono::milliseconds drain_look{1};

}  // namespace

wire::state::state(std::unique_ptr<endpoint> with, asio::ip::tcp::socket line)
    : over(std::move(with)),
      lifeline(std::move(line)),
      queue(lifeline.get_executor()),
      clock(lifeline.get_executor()),
      room(lifeline.get_executor(), std::chrono::steady_clock::time_point::max()) {
  const int fd = ::dup(over->descriptor());
  if (fd < 0) throw call_failed("dup", errno, over->on().text());
  queue.assign(fd);
}

wire::state::~state() {
  error_code ignored;
  queue.close(ignored);  // before the library closes its own
}

wire::wire(std::unique_ptr<endpoint> over, asio::ip::tcp::socket lifeline)
    : state_(std::make_shared<state>(std::move(over), std::move(lifeline))),
      on_(state_->over->shared_adapter()) {
  on_->add(this);
  state_->watch_lifeline(state_);
}

wire::~wire() {
  on_->remove(this);
  close(true);
}

/// No data is expected: the socket becomes readable when the peer closes it.
void wire::state::watch_lifeline(const std::shared_ptr<state>& self) {
  lifeline.async_wait(asio::socket_base::wait_read, [self](error_code failure) {
    if (failure || self->closed) return;
    self->look();
    self->peer_left = true;
    self->wake();
  });
}

bool wire::state::look() {
  const bool found = over->poll();
  if (found) room.cancel();
  tell_placed();
  return found;
}

void wire::state::wake() {
  error_code ignored;
  queue.cancel(ignored);
}

ssize_t wire::send(std::span<const iovec> parts) {
  std::size_t taken = state_->over->send(parts);
  if (taken == 0 && state_->look()) taken = state_->over->send(parts);
  if (taken > 0) return static_cast<ssize_t>(taken);
  if (!state_->over->failure().empty()) state_->wake();  // the reader reports it
  errno = EAGAIN;
  return -1;
}

bool wire::place(std::span<const std::byte> head, const rails::placement& what) {
  bool is_taken = state_->over->place(head, what);
  if (!is_taken && state_->look()) is_taken = state_->over->place(head, what);
  if (!is_taken && !state_->over->failure().empty()) state_->wake();
  return is_taken;
}

void wire::state::tell_placed() {
  std::vector<std::uint64_t>& ended = over->ended_placements();
  if (ended.empty()) return;
  const std::vector<std::uint64_t> now = std::exchange(ended, {});
  if (!placed) return;
  for (const std::uint64_t token : now) placed(token);
}

ssize_t wire::receive(std::span<const iovec> buffers) {
  endpoint& over = *state_->over;
  while (!over.any_arrived() && state_->look()) {
  }
  std::size_t copied = 0;
  for (const iovec& part : buffers) {
    std::size_t filled = 0;
    while (filled < part.iov_len && over.any_arrived()) {
      const std::span<const std::byte> left = over.front().bytes.subspan(front_read_);
      const std::size_t now = std::min(left.size(), part.iov_len - filled);
      if (now > 0) std::memcpy(static_cast<std::byte*>(part.iov_base) + filled, left.data(), now);
      filled += now;
      front_read_ += now;
      if (now < left.size()) break;
      over.release_front();
      front_read_ = 0;
    }
    copied += filled;
    if (filled < part.iov_len) break;
  }
  if (copied > 0) return static_cast<ssize_t>(copied);
  if (state_->peer_left && over.failure().empty()) return 0;
  errno = over.failure().empty() ? EAGAIN : ECONNRESET;
  return -1;
}

std::string wire::describe(int number) const {
  if (state_->over->failure().empty()) return std::strerror(number);
  return cause();
}

/// An event of the device explains more than a flushed request.
const std::string& wire::cause() const {
  if (!state_->over->knows_cause()) on_->hear();
  return state_->over->failure();
}

std::string wire::trouble() {
  while (state_->look()) {
  }
  return cause();
}

void wire::wait_read(handler come) {
  state& s = *state_;
  const bool is_over = s.closed || s.peer_left || !s.over->failure().empty();
  bool any = is_over || s.over->any_arrived();
  if (!any) {
    s.over->arm();
    // Completions before the queue was armed are not signalled.
    any = s.look() || !s.over->failure().empty();
  }
  if (any) {
    asio::post(s.get_executor(),
               [self = state_, come = std::move(come)] { come(self->outcome()); });
    return;
  }
  s.queue.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = state_, come = std::move(come)](error_code) {
                       self->over->take_events();
                       come(self->outcome());
                     });
}

void wire::wait_write(handler go_on) {
  state_->room.async_wait(
      [self = state_, go_on = std::move(go_on)](error_code) { go_on(self->outcome()); });
}

void wire::device_says(ibv_event_type what, const ibv_qp* pair) {
  state& s = *state_;
  if (pair != nullptr && !s.over->owns(pair)) return;
  const event_words text = words_for(what);
  if (!text.is_fatal) return;
  s.over->fail(fmt::format("{}: {}{}{}", on_->text(), text.what, text.advice.empty() ? "" : "; ",
                           text.advice));
  s.wake();
}

void wire::gid_lost(const std::string& why) {
  state_->over->fail(why);
  state_->wake();
}

bool wire::is_on(const rails::nic&) const {
  return false;  // the state of the port is reported by device events
}

/// Pending wait handlers are called with an error.
void wire::close(bool reset) noexcept {
  state& s = *state_;
  if (std::exchange(s.closed, true)) return;
  error_code ignored;
  s.wake();
  s.room.cancel();
  s.patient_until =
      std::chrono::steady_clock::now() + (reset ? decltype(drain_limit){0} : drain_limit);
  if (reset) s.lifeline.set_option(asio::socket_base::linger(true, 0), ignored);
  s.over->flush();
  s.farewell(state_);
}

void wire::state::tell_quiet() {
  is_quiet = true;
  placed = nullptr;
  if (const auto done = std::exchange(quiet, nullptr)) done();
}

/// Waits until posted requests have completed; then stops both queue pairs and waits until the rest
/// is flushed before they are destroyed, which soft-RoCE of Linux 6.1 requires.
void wire::state::farewell(const std::shared_ptr<state>& self) {
  const auto now = std::chrono::steady_clock::now();
  over->poll();
  tell_placed();
  if (!stopped && (over->is_drained() || !over->failure().empty() || now >= patient_until)) {
    stopped = true;
    over->stop();
    error_code ignored;
    lifeline.close(ignored);
    over->fail("closed");
    over->poll();
    patient_until = now + drain_limit;
  }
  if (stopped && (over->is_quiet() || now >= patient_until)) {
    if (!over->is_quiet()) over->destroy_pairs();
    tell_quiet();
    return;
  }
  clock.expires_after(drain_look);
  clock.async_wait([self](error_code failure) {
    if (!failure) self->farewell(self);
  });
}

}  // namespace tandem::verbs
