#include "transports/rails/lane_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::rails {
namespace {

constexpr int reads_per_turn = 16;   // then the other lanes are read
constexpr int max_empty_polls = 64;  // about 20 us; then the kernel's event queue is cheaper
/// Unsent bytes in the kernel delay urgent frames and are lost with the lane, so they are limited
/// to this time at the lane's rate, but at least to what one batch needs. On loopback a fixed 256
/// KiB halves the rate: writer and reader wait for each other.
constexpr double unsent_s = 0.002;
constexpr int min_unsent_bytes = 256 * 1024, max_unsent_bytes = 64 * 1024 * 1024;

core::time_point now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

lane_set::lane_set(const asio::any_io_executor& executor, core& state, owner& of, std::size_t lanes)
    : pollable(executor),
      core_(state),
      owner_(of),
      lanes_(lanes),
      names_(lanes),
      losses_(lanes),
      meters_(lanes) {}

void lane_set::attach(std::uint16_t index, std::uint32_t epoch,
                      std::unique_ptr<lane_connection> over, std::string name) {
  if (lanes_[index]) lose(*lanes_[index], "replaced by a new connection");
  if (names_[index].empty()) {
    const protocol::identity& who = core_.messages().who();
    meters_[index] = {name, who.rank, who.peer};
  }
  names_[index] = std::move(name);
  lanes_[index] = std::make_shared<lane>(core_, index, std::move(over));
  const lane_connection& by = *lanes_[index]->over;
  core_.lane_up(index, epoch, now(), by.is_standby(), by.has_integrity_check());
  bound_unsent(*lanes_[index]);
  watch_placements(*lanes_[index]);
  log(log_level::info, "rails",
      fmt::format("lane {} ({}) is up, epoch {}", index, names_[index], epoch));
  arm(lanes_[index]);
}

void lane_set::lose(std::uint16_t index, const std::string& why) {
  lose(*lanes_[index], why);
}

void lane_set::lose(lane& which, const std::string& why) {
  if (!which.open) return;
  log(log_level::info, "rails",
      fmt::format("lane {} ({}) is down: {}", which.index, names_[which.index], why));
  ++losses_[which.index].count;
  meters_[which.index].lost();
  losses_[which.index].why = why;
  const lane_ptr keep = lanes_[which.index];
  close(which, true);
  lanes_[which.index].reset();
}

void lane_set::lose_on(const nic& which, const std::string& why) {
  for (const lane_ptr& l : lanes_) {
    if (!l) continue;
    const lane_ptr keep = l;
    if (keep->over->is_on(which)) lose(*keep, why);
  }
}

void lane_set::lose_given_up() {
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i] || !core_.must_close(i)) continue;
    const std::string own = lanes_[i]->over->failure_reason();
    lose(*lanes_[i], own.empty() ? "no traffic, or closed by the peer" : own);
  }
}

void lane_set::close() {
  for (lane_ptr& l : lanes_) {
    if (!l) continue;
    close(*l, false);
    l.reset();
  }
}

/// Views that a NIC may still access are returned once the lane is quiesced; the link lives so
/// long.
void lane_set::close(lane& which, bool reset) {
  which.open = false;
  const std::uint16_t index = which.index;
  const std::uint32_t epoch = core_.lane_epoch(index);
  which.over->close(reset);
  const bool is_quiesced = which.over->is_quiesced();
  core_.lane_lost(index, is_quiesced);
  owner_.complete_soon();
  if (is_quiesced) return;
  which.over->on_quiesced([self = shared(), index, epoch] {
    self->core_.lane_quiesced(index, epoch);
    self->owner_.after_event();
  });
}

void lane_set::drop() noexcept {
  lanes_.assign(lanes_.size(), nullptr);
}

void lane_set::bound_unsent(lane& of) {
  of.peak_bytes_per_s = std::max(0.9 * of.peak_bytes_per_s, core_.measured_bytes_per_s(of.index));
  const double bytes = unsent_s * of.peak_bytes_per_s;
  const int bound =
      static_cast<int>(std::clamp(bytes, double{min_unsent_bytes}, double{max_unsent_bytes}));
  if (bound > of.unsent_bytes / 2 && bound < of.unsent_bytes * 2) return;
  of.unsent_bytes = bound;
  of.over->bound_unsent(bound);
}

/// The connection may outlive the link.
void lane_set::watch_placements(lane& of) {
  const std::weak_ptr<lane_set> weak_self = shared();
  of.over->on_placed([weak_self, index = of.index](std::uint64_t token) {
    const auto self = weak_self.lock();
    if (!self) return;
    self->core_.placed(index, token);
    self->owner_.complete_soon();
  });
}

void lane_set::read_all() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const lane_ptr l = lanes_[i];
    if (!l) continue;
    read_ready(*l, now());
    if (l->open) bound_unsent(*l);
  }
}

bool lane_set::read_ready(lane& from, core::time_point at) {
  if (!read_some(from, at)) return false;
  meters_[from.index].reached(core_.sent().acknowledged_bytes(from.index),
                              core_.received_bytes(from.index));
  return true;
}

bool lane_set::read_some(lane& from, core::time_point at) {
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
        owner_.broken(from.reader.why());
        return true;
    }
    if (static_cast<std::size_t>(n) < wanted && !from.over->holds_more()) break;
  }
  return any;
}

void lane_set::arm(const lane_ptr& which) {
  if (which->armed || !which->open) return;
  which->armed = true;
  which->over->wait_read({shared(), which, [](void* of, void* armed, error_code failure) {
                            static_cast<lane_set*>(of)->readable(*static_cast<lane*>(armed),
                                                                 failure);
                          }});
}

void lane_set::readable(lane& which, const error_code& failure) {
  which.armed = false;
  if (failure || !which.open) return;
  which.empty_polls = 0;
  read_ready(which, now());
  owner_.after_event();
  if (which.open && !loop().is_polling()) arm(lanes_[which.index]);
}

void lane_set::arm() {
  for (const lane_ptr& l : lanes_) {
    if (l) arm(l);
  }
}

bool lane_set::poll() {
  bool found = false;
  std::shared_ptr<void> keep;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const lane_ptr l = lanes_[i];
    if (!l || l->armed) continue;
    if (!keep) keep = owner_.keep_alive();
    if (read_ready(*l, now())) {
      l->empty_polls = 0;
      found = true;
    } else if (++l->empty_polls >= max_empty_polls) {
      arm(l);
    }
  }
  if (found) owner_.after_event();
  return found;
}

void lane_set::flush() {
  const core::time_point at = now();
  for (bool wrote = true; wrote;) {
    wrote = false;
    for (const lane_ptr& l : lanes_) {
      if (l && write_some(l, at)) wrote = true;
    }
  }
}

bool lane_set::write_some(const lane_ptr& to, core::time_point at) {
  if (to->blocked || !to->open) return false;
  const auto outcome = to->writer.write_some(*to->over, at);
  if (outcome == lane_writer::outcome::full) wait_for_room(to);
  return outcome == lane_writer::outcome::wrote;
}

void lane_set::wait_for_room(const lane_ptr& to) {
  to->blocked = true;
  to->over->wait_write({shared(), to, [](void* of, void* blocked, error_code failure) {
                          static_cast<lane_set*>(of)->writable(*static_cast<lane*>(blocked),
                                                               failure);
                        }});
}

void lane_set::writable(lane& which, const error_code& failure) {
  which.blocked = false;
  if (failure || !which.open) return;
  flush();
  owner_.complete_soon();
}

bool lane_set::has_unsent() const noexcept {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const lane_ptr& l) { return l && l->over->has_unsent(); });
}

void lane_set::copy_payloads() {
  for (const lane_ptr& l : lanes_) {
    if (l) l->writer.copy_payloads();
  }
}

bool lane_set::is_zero_copy(const const_view& view) const {
  bool found = false;
  for (const lane_ptr& l : lanes_) {
    if (!l || !l->open || l->over->is_standby()) continue;
    found = l->over->domain() != nullptr && (view.bytes == 0 || l->over->is_zero_copy(view));
    if (!found) return false;
  }
  return found;
}

std::vector<rail_stats> lane_set::rails() const {
  std::vector<rail_stats> all;
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    all.push_back({names_[i], name(core_.lane_state(i)), core_.lane_epoch(i),
                   core_.sent().acknowledged_bytes(i), core_.measured_bytes_per_s(i),
                   core_.received_bytes(i), losses_[i].count, losses_[i].why});
  }
  return all;
}

}  // namespace tandem::rails
