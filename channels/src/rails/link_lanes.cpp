#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <tandem/deadline.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/log.hpp>

#include "rails/link.hpp"

namespace tandem::rails {
namespace {

constexpr int reads_per_turn = 16;    // then the other lanes are read
constexpr int polls_until_cold = 64;  // about 20 us; then the kernel's event queue is cheaper
/// Unsent bytes in the kernel delay urgent frames and are lost with the lane, so they are limited
/// to this time at the lane's rate, but at least to what one batch needs. On loopback a fixed 256
/// KiB halves the rate: writer and reader wait for each other.
constexpr double unsent_s = 0.002;
constexpr int least_unsent_bytes = 256 * 1024, most_unsent_bytes = 64 * 1024 * 1024;
constexpr std::chrono::milliseconds first_pause{10}, longest_pause{500}, dial_limit{6000};

core::time_point now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

bool link::attach(std::uint16_t index, std::uint32_t epoch, std::unique_ptr<wire> over,
                  std::string name) {
  if (!may_come(index, epoch)) return false;
  if (lanes_[index]) lose(*lanes_[index], "replaced by a new connection");
  names_[index] = std::move(name);
  lanes_[index] = std::make_shared<lane>(*this, index, std::move(over));
  const wire& by = *lanes_[index]->over;
  core_.lane_up(index, epoch, now(), by.stands_by(), by.guards_bytes());
  bound_unsent(*lanes_[index]);
  hear_placements(*lanes_[index]);
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
      static_cast<int>(std::clamp(bytes, double{least_unsent_bytes}, double{most_unsent_bytes}));
  if (bound > of.unsent_bytes / 2 && bound < of.unsent_bytes * 2) return;
  of.unsent_bytes = bound;
  of.over->bound_unsent(bound);
}

void link::cut(std::uint16_t index) {
  if (!lanes_[index]) return;
  lose(*lanes_[index], "reset on request");
  settle();
}

void link::carrier_lost(const nic& which) {
  const auto self = shared_from_this();
  for (const lane_ptr& l : lanes_) {
    if (!l) continue;
    const lane_ptr keep = l;
    if (!keep->over->is_on(which)) continue;
    lose(*keep, fmt::format("the kernel reports {} has no link", which.name));
  }
  settle();
}

bool link::read_ready(lane& from, core::time_point at) {
  bool any = false;
  for (int i = 0; i < reads_per_turn && from.open; ++i) {
    const std::span<const iovec> buffers = from.reader.room();
    const std::uint64_t before = from.over->received_bytes();
    const ssize_t n = from.over->receive(buffers);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // A partial record shows only that the peer is alive.
      if (from.over->received_bytes() == before) break;
      core_.heard(from.index, at);
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
  const auto come = [self = shared_from_this(), which](error_code failure) {
    which->armed = false;
    if (failure || !which->open) return;
    which->empty_polls = 0;
    self->read_ready(*which, now());
    self->settle();
    if (!self->loop().is_polling()) self->arm(which);
  };
  which->over->wait_read(come);
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
    } else if (++l->empty_polls >= polls_until_cold) {
      arm(l);
    }
  }
  if (found) settle();
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
void link::settle() {
  obey();
  complete_done();
}

/// Closes the lanes that the core has given up, writes what it has to send, connects missing lanes.
void link::obey() {
  if (finished_) return;
  const auto self = shared_from_this();
  if (core_.messages().peer_said_goodbye() && !lingers_until_) heard_goodbye();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i] || !core_.closes(i)) continue;
    const std::string own = lanes_[i]->over->trouble();
    lose(*lanes_[i], own.empty() ? "no traffic, or closed by the peer" : own);
  }
  flush();
  if (core_.peer_gave_up() && !closed_) heard_failure();
  const bool done = closed_ && core_.is_flushed() && !has_unsent();
  if (done || (lingers_until_ && (!core_.any_live() || now() >= *lingers_until_))) finish();
  dial_missing();
}

void link::dial_missing() {
  if (closed_ || lingers_until_) return;
  if (!dial_) return knock_when_alone();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i] || dials_[i]) continue;
    dials_[i] = std::make_shared<cancellable>();
    dials_[i]->start(executor_, dial(i),
                     [self = shared_from_this(), i, keep = dials_[i]](std::exception_ptr) {
                       self->dials_[i].reset();
                     });
  }
}

void link::knock_when_alone() {
  if (!knock_ || knocking_ || core_.any_live()) return;
  knocking_ = std::make_shared<cancellable>();
  knocking_->start(executor_, knock(),
                   [self = shared_from_this(), keep = knocking_](std::exception_ptr) {
                     self->knocking_.reset();
                   });
}

asio::awaitable<void> link::dial(std::uint16_t index) {
  const auto self = shared_from_this();
  std::function<asio::awaitable<void>()> once = [this, index] { return dial_once(index); };
  std::function<bool()> is_enough = [this, index] { return lanes_[index] != nullptr; };
  co_await ask(std::move(once), std::move(is_enough));
}

asio::awaitable<void> link::knock() {
  const auto self = shared_from_this();
  std::function<asio::awaitable<void>()> once = knock_;
  std::function<bool()> is_enough = [this] { return core_.any_live(); };
  co_await ask(std::move(once), std::move(is_enough));
}

/// Repeats until it is no longer needed, or the peer refuses and no lane is left.
asio::awaitable<void> link::ask(std::function<asio::awaitable<void>()> once,
                                std::function<bool()> is_enough) {
  asio::steady_timer timer(executor_);
  std::chrono::milliseconds pause = first_pause;
  while (!is_enough() && !closed_ && !lingers_until_) {
    bool refused = false;
    try {
      co_await with_deadline(dial_limit, once(), "connecting a lane");
    } catch (const error& e) {
      if (e.code() == asio::error::operation_aborted) throw;
      refused = e.code() == asio::error::connection_refused;
      log(log_level::debug, "rails", e.what());
    }
    if (is_enough() || closed_) break;
    if (refused && !core_.any_live()) {
      vanished("it no longer listens");
      break;
    }
    timer.expires_after(pause);
    co_await timer.async_wait(asio::use_awaitable);
    pause = std::min(2 * pause, longest_pause);
  }
}

asio::awaitable<void> link::dial_once(std::uint16_t index) {
  const std::uint32_t epoch = core_.next_epoch(index);
  std::string name;
  std::unique_ptr<wire> over = co_await dial_(index, epoch, name);
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
    vanished(fmt::format("no traffic on any rail for {}", detail::to_text(bounds_.peer)),
             "its host is down or stopped, or a firewall or a cut network drops packets (all, or "
             "those above the MTU of a link on the way); ");
  }
  settle();
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
                   core_.sent().arrived_bytes(i), core_.measured_bytes_per_s(i),
                   core_.received_bytes(i), lost_lanes_[i].count, lost_lanes_[i].why});
  }
  return all;
}

}  // namespace tandem::rails
