#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <tandem/async.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/log.hpp>

#include "rails/link.hpp"

namespace tandem::rails {
namespace {

constexpr int reads_per_turn = 16;   // then the other lanes are read
constexpr int max_empty_polls = 64;  // about 20 us; then the kernel's event queue is cheaper
/// Unsent bytes in the kernel delay urgent frames and are lost with the lane, so they are limited
/// to this time at the lane's rate, but at least to what one batch needs. On loopback a fixed 256
/// KiB halves the rate: writer and reader wait for each other.
constexpr double unsent_s = 0.002;
constexpr int min_unsent_bytes = 256 * 1024, max_unsent_bytes = 64 * 1024 * 1024;
constexpr std::chrono::milliseconds first_pause{10}, longest_pause{500}, connect_limit{6000};

core::time_point now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

bool link::attach(std::uint16_t index, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
                  std::string name) {
  if (!accepts_epoch(index, epoch)) return false;
  if (lanes_[index]) lose(*lanes_[index], "replaced by a new connection");
  names_[index] = std::move(name);
  lanes_[index] = std::make_shared<lane>(*this, index, std::move(over));
  const lane_connection& by = *lanes_[index]->over;
  core_.lane_up(index, epoch, now(), by.is_standby(), by.has_integrity_check());
  bound_unsent(*lanes_[index]);
  watch_placements(*lanes_[index]);
  log(log_level::info, "rails",
      fmt::format("lane {} ({}) is up, epoch {}", index, names_[index], epoch));
  arm(lanes_[index]);
  flush();
  return true;
}

/// Closed by a reset, which reaches the peer at once and discards what the kernel still holds.
void link::lose(lane& which, const std::string& why) {
  if (!which.open) return;
  log(log_level::info, "rails",
      fmt::format("lane {} ({}) is down: {}", which.index, names_[which.index], why));
  ++lost_lanes_[which.index].count;
  lost_lanes_[which.index].why = why;
  const lane_ptr keep = lanes_[which.index];
  close(which, true);
  lanes_[which.index].reset();
}

void link::bound_unsent(lane& of) {
  of.peak_bytes_per_s = std::max(0.9 * of.peak_bytes_per_s, core_.measured_bytes_per_s(of.index));
  const double bytes = unsent_s * of.peak_bytes_per_s;
  const int bound =
      static_cast<int>(std::clamp(bytes, double{min_unsent_bytes}, double{max_unsent_bytes}));
  if (bound > of.unsent_bytes / 2 && bound < of.unsent_bytes * 2) return;
  of.unsent_bytes = bound;
  of.over->bound_unsent(bound);
}

void link::cut(std::uint16_t index) {
  if (!lanes_[index]) return;
  lose(*lanes_[index], "reset on request");
  after_event();
}

void link::carrier_lost(const nic& which) {
  const auto self = shared_from_this();
  for (const lane_ptr& l : lanes_) {
    if (!l) continue;
    const lane_ptr keep = l;
    if (!keep->over->is_on(which)) continue;
    lose(*keep, fmt::format("the kernel reports {} has no link", which.name));
  }
  after_event();
}

bool link::read_ready(lane& from, core::time_point at) {
  bool any = false;
  for (int i = 0; i < reads_per_turn && from.open; ++i) {
    const std::span<const iovec> buffers = from.reader.buffers();
    const std::uint64_t before = from.over->received_bytes();
    const ssize_t n = from.over->receive(buffers);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // A partial record shows only that the peer is alive.
      if (from.over->received_bytes() == before) break;
      core_.on_receive(from.index, at);
      return true;
    }
    any = true;
    if (n <= 0) {
      lose(from, n == 0 ? "closed by the peer" : from.over->describe(errno));
      break;
    }
    std::size_t wanted = 0;
    for (const iovec& part : buffers) wanted += part.iov_len;
    switch (from.reader.advance(static_cast<std::size_t>(n), at)) {
      case lane_reader::outcome::good:
        break;
      case lane_reader::outcome::broken:
        lose(from, from.reader.why());
        break;
      case lane_reader::outcome::violated:
        broken(from.reader.why());
        return true;
    }
    if (static_cast<std::size_t>(n) < wanted && !from.over->holds_more()) break;
  }
  return any;
}

void link::arm(const lane_ptr& which) {
  if (which->armed || !which->open) return;
  which->armed = true;
  const auto on_readable = [self = shared_from_this(), which](error_code failure) {
    which->armed = false;
    if (failure || !which->open) return;
    which->empty_polls = 0;
    self->read_ready(*which, now());
    self->after_event();
    if (!self->loop().is_polling()) self->arm(which);
  };
  which->over->wait_read(on_readable);
}

void link::arm() {
  for (const lane_ptr& l : lanes_) {
    if (l) arm(l);
  }
}

bool link::poll() {
  bool found = false;
  std::shared_ptr<link> self;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const lane_ptr l = lanes_[i];
    if (!l || l->armed) continue;
    if (!self) self = shared_from_this();
    if (read_ready(*l, now())) {
      l->empty_polls = 0;
      found = true;
    } else if (++l->empty_polls >= max_empty_polls) {
      arm(l);
    }
  }
  if (found) after_event();
  return found;
}

void link::flush() {
  const core::time_point at = now();
  for (bool wrote = true; wrote;) {
    wrote = false;
    for (const lane_ptr& l : lanes_) {
      if (l && write_some(l, at)) wrote = true;
    }
  }
}

bool link::write_some(const lane_ptr& to, core::time_point at) {
  if (to->blocked || !to->open) return false;
  const auto outcome = to->writer.write_some(*to->over, at);
  if (outcome == lane_writer::outcome::full) wait_for_room(to);
  return outcome == lane_writer::outcome::wrote;
}

void link::wait_for_room(const lane_ptr& to) {
  to->blocked = true;
  to->over->wait_write([self = shared_from_this(), to](error_code failure) {
    to->blocked = false;
    if (failure || !to->open) return;
    self->flush();
    self->complete_soon();
  });
}

bool link::has_unsent() const noexcept {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const lane_ptr& l) { return l && l->over->has_unsent(); });
}

/// Called after every event.
void link::after_event() {
  apply_core_state();
  complete_done();
}

/// Closes the lanes that the core has given up, writes what it has to send, connects missing lanes.
void link::apply_core_state() {
  if (finished_) return;
  const auto self = shared_from_this();
  if (core_.messages().received_close() && !lingers_until_) on_peer_close();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i] || !core_.must_close(i)) continue;
    const std::string own = lanes_[i]->over->failure_reason();
    lose(*lanes_[i], own.empty() ? "no traffic, or closed by the peer" : own);
  }
  flush();
  if (core_.peer_failed() && !closed_) on_peer_failure();
  const bool done = closed_ && core_.is_flushed() && !has_unsent();
  if (done || (lingers_until_ && (!core_.any_live() || now() >= *lingers_until_))) finish();
  connect_missing();
}

void link::connect_missing() {
  if (closed_ || lingers_until_) return;
  if (!connector_) return probe_when_alone();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i] || connect_attempts_[i]) continue;
    connect_attempts_[i] = std::make_shared<cancellable>();
    connect_attempts_[i]->start(executor_, connect_lane(i),
                                [self = shared_from_this(), i, keep = connect_attempts_[i]](
                                    std::exception_ptr) { self->connect_attempts_[i].reset(); });
  }
}

void link::probe_when_alone() {
  if (!probe_ || active_probe_ || core_.any_live()) return;
  active_probe_ = std::make_shared<cancellable>();
  active_probe_->start(executor_, probe_peer(),
                       [self = shared_from_this(), keep = active_probe_](std::exception_ptr) {
                         self->active_probe_.reset();
                       });
}

asio::awaitable<void> link::connect_lane(std::uint16_t index) {
  const auto self = shared_from_this();
  std::function<asio::awaitable<void>()> once = [this, index] { return connect_once(index); };
  std::function<bool()> is_enough = [this, index] { return lanes_[index] != nullptr; };
  co_await retry(std::move(once), std::move(is_enough));
}

asio::awaitable<void> link::probe_peer() {
  const auto self = shared_from_this();
  std::function<asio::awaitable<void>()> once = probe_;
  std::function<bool()> is_enough = [this] { return core_.any_live(); };
  co_await retry(std::move(once), std::move(is_enough));
}

/// Repeats until it is no longer needed, or the peer refuses and no lane is left.
asio::awaitable<void> link::retry(std::function<asio::awaitable<void>()> once,
                                  std::function<bool()> is_enough) {
  asio::steady_timer timer(executor_);
  std::chrono::milliseconds pause = first_pause;
  while (!is_enough() && !closed_ && !lingers_until_) {
    bool refused = false;
    try {
      co_await with_deadline(connect_limit, once(), "connecting a lane");
    } catch (const error& e) {
      if (e.code() == asio::error::operation_aborted) throw;
      refused = e.code() == asio::error::connection_refused;
      log(log_level::debug, "rails", e.what());
    }
    if (is_enough() || closed_) break;
    if (refused && !core_.any_live()) {
      on_peer_lost("it no longer listens");
      break;
    }
    timer.expires_after(pause);
    co_await timer.async_wait(asio::use_awaitable);
    pause = std::min(2 * pause, longest_pause);
  }
}

asio::awaitable<void> link::connect_once(std::uint16_t index) {
  const std::uint32_t epoch = core_.next_epoch(index);
  std::string name;
  std::unique_ptr<lane_connection> over = co_await connector_(index, epoch, name);
  attach(index, epoch, std::move(over), std::move(name));
}

/// Sends heartbeats and checks timeouts, after reading what has arrived.
void link::tick() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const lane_ptr l = lanes_[i];
    if (!l) continue;
    read_ready(*l, now());
    if (l->open) bound_unsent(*l);
  }
  core_.tick(now());
  if (core_.peer_is_silent()) {
    // No other source knows better: the peer's connection to rank 0 may still be alive.
    if (silent_) lost_ = std::exchange(silent_, nullptr);
    on_peer_lost(
        fmt::format("no traffic on any rail for {}", detail::to_text(bounds_.peer)),
        "its host is down or stopped, or a firewall or a cut network drops packets (all, or "
        "those above the MTU of a link on the way); ");
  }
  after_event();
  if (finished_) return;
  clock_.expires_after(bounds_.heartbeat() / 2);
  clock_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (!cancelled && self) self->tick();
  });
}

std::vector<rail_stats> link::rails() const {
  std::vector<rail_stats> all;
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    all.push_back({names_[i], name(core_.lane_state(i)), core_.lane_epoch(i),
                   core_.sent().acknowledged_bytes(i), core_.measured_bytes_per_s(i),
                   core_.received_bytes(i), lost_lanes_[i].count, lost_lanes_[i].why});
  }
  return all;
}

}  // namespace tandem::rails
