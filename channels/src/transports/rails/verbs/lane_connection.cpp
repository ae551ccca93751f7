#include "transports/rails/verbs/lane_connection.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <tandem/detail/resources.hpp>
#include <utility>

#include "transports/rails/verbs/status_text.hpp"

namespace tandem::verbs {
namespace {

/// Timeout for posted requests to complete, and then to be flushed.
constexpr std::chrono::milliseconds drain_limit{300};
constexpr std::chrono::milliseconds drain_interval{1};

}  // namespace

lane_connection::state::state(std::unique_ptr<endpoint> with, asio::ip::tcp::socket line)
    : over(std::move(with)),
      control_socket(std::move(line)),
      queue(control_socket.get_executor()),
      clock(control_socket.get_executor()),
      send_ready(control_socket.get_executor(), std::chrono::steady_clock::time_point::max()) {
  const int fd = ::dup(over->descriptor());
  if (fd < 0) throw call_failed("dup", errno, over->on().text());
  queue.assign(fd);
}

lane_connection::state::~state() {
  error_code ignored;
  queue.close(ignored);  // before the library closes its own
}

lane_connection::lane_connection(std::unique_ptr<endpoint> over,
                                 asio::ip::tcp::socket control_socket)
    : state_(std::make_shared<state>(std::move(over), std::move(control_socket))),
      on_(state_->over->shared_adapter()) {
  on_->add(this);
  state_->watch_control_socket(state_);
}

lane_connection::~lane_connection() {
  on_->remove(this);
  close(true);
}

/// No data is expected: the socket becomes readable when the peer closes it.
void lane_connection::state::watch_control_socket(const std::shared_ptr<state>& self) {
  control_socket.async_wait(asio::socket_base::wait_read, [self](error_code failure) {
    if (failure || self->closed) return;
    self->poll();
    self->peer_closed = true;
    self->wake();
  });
}

bool lane_connection::state::poll() {
  const bool found = over->poll();
  if (found) send_ready.cancel();
  report_placements();
  return found;
}

void lane_connection::state::wake() {
  error_code ignored;
  queue.cancel(ignored);
}

ssize_t lane_connection::send(std::span<const iovec> parts) {
  std::size_t taken = state_->over->send(parts);
  if (taken == 0 && state_->poll()) taken = state_->over->send(parts);
  if (taken > 0) return static_cast<ssize_t>(taken);
  if (!state_->over->failure().empty()) state_->wake();  // the reader reports it
  errno = EAGAIN;
  return -1;
}

bool lane_connection::place(std::span<const std::byte> head, const rails::placement& what) {
  bool is_taken = state_->over->place(head, what);
  if (!is_taken && state_->poll()) is_taken = state_->over->place(head, what);
  if (!is_taken && !state_->over->failure().empty()) state_->wake();
  return is_taken;
}

void lane_connection::state::report_placements() {
  std::vector<std::uint64_t>& ended = over->ended_placements();
  if (ended.empty()) return;
  std::vector<std::uint64_t> now = std::exchange(ended, std::move(spare_placements));
  for (const std::uint64_t token : now) {
    if (placed_handler) placed_handler(token);
  }
  now.clear();
  spare_placements = std::move(now);
}

ssize_t lane_connection::receive(std::span<const iovec> buffers) {
  endpoint& over = *state_->over;
  while (!over.any_arrived() && state_->poll()) {
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
  if (state_->peer_closed && over.failure().empty()) return 0;
  errno = over.failure().empty() ? EAGAIN : ECONNRESET;
  return -1;
}

std::string lane_connection::describe(int number) const {
  if (state_->over->failure().empty()) return detail::errno_text(number);
  return cause();
}

/// An event of the device explains more than a flushed request.
const std::string& lane_connection::cause() const {
  if (!state_->over->knows_cause()) on_->read_events();
  return state_->over->failure();
}

std::string lane_connection::failure_reason() {
  while (state_->poll()) {
  }
  return cause();
}

void lane_connection::wait_read(handler on_readable) {
  state& s = *state_;
  const bool is_over = s.closed || s.peer_closed || !s.over->failure().empty();
  bool any = is_over || s.over->any_arrived();
  if (!any) {
    s.over->arm();
    // Completions before the queue was armed are not signalled.
    any = s.poll() || !s.over->failure().empty();
  }
  if (any) {
    asio::post(s.get_executor(), [self = state_, on_readable = std::move(on_readable)] {
      on_readable(self->outcome());
    });
    return;
  }
  s.queue.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = state_, on_readable = std::move(on_readable)](error_code) {
                       self->over->take_events();
                       on_readable(self->outcome());
                     });
}

void lane_connection::wait_write(handler on_writable) {
  state_->send_ready.async_wait([self = state_, on_writable = std::move(on_writable)](error_code) {
    on_writable(self->outcome());
  });
}

void lane_connection::on_device_event(ibv_event_type what, const ibv_qp* pair) {
  state& s = *state_;
  if (pair != nullptr && !s.over->owns(pair)) return;
  const event_text text = text_for(what);
  if (!text.is_fatal) return;
  s.over->fail(fmt::format("{}: {}{}{}", on_->text(), text.what, text.advice.empty() ? "" : "; ",
                           text.advice));
  s.wake();
}

void lane_connection::on_gid_lost(const std::string& why) {
  state_->over->fail(why);
  state_->wake();
}

bool lane_connection::is_on(const rails::nic&) const {
  return false;  // the state of the port is reported by device events
}

/// Pending wait handlers are called with an error.
void lane_connection::close(bool reset) noexcept {
  state& s = *state_;
  if (std::exchange(s.closed, true)) return;
  error_code ignored;
  s.wake();
  s.send_ready.cancel();
  s.drain_deadline =
      std::chrono::steady_clock::now() + (reset ? decltype(drain_limit){0} : drain_limit);
  if (reset) s.control_socket.set_option(asio::socket_base::linger(true, 0), ignored);
  s.over->flush();
  s.drain(state_);
}

void lane_connection::state::report_quiesced() {
  is_quiesced = true;
  placed_handler = nullptr;
  if (const auto done = std::exchange(quiesced_handler, nullptr)) done();
}

/// Waits until posted requests have completed; then stops both queue pairs and waits until the rest
/// is flushed before they are destroyed, which soft-RoCE of Linux 6.1 requires.
void lane_connection::state::drain(const std::shared_ptr<state>& self) {
  const auto now = std::chrono::steady_clock::now();
  over->poll();
  report_placements();
  if (!stopped && (over->is_drained() || !over->failure().empty() || now >= drain_deadline)) {
    stopped = true;
    over->stop();
    error_code ignored;
    control_socket.close(ignored);
    over->fail("closed");
    over->poll();
    drain_deadline = now + drain_limit;
  }
  if (stopped && (over->is_quiesced() || now >= drain_deadline)) {
    if (!over->is_quiesced()) over->destroy_queue_pairs();
    report_quiesced();
    return;
  }
  clock.expires_after(drain_interval);
  clock.async_wait([self](error_code failure) {
    if (!failure) self->drain(self);
  });
}

}  // namespace tandem::verbs
