#include "transports/rails/lane_table.hpp"

#include <algorithm>

namespace tandem::rails {

bool lane_table::any_live() const noexcept {
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (is_live(i)) return true;
  }
  return false;
}

bool lane_table::any_active_up() const noexcept {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const record& l) { return l.at == state::up && !l.is_standby; });
}

std::size_t lane_table::carrying() const noexcept {
  const bool standbys_idle = any_active_up();
  const auto carries = [standbys_idle](const record& l) {
    return l.at == state::up && !(l.is_standby && standbys_idle);
  };
  return static_cast<std::size_t>(std::count_if(lanes_.begin(), lanes_.end(), carries));
}

std::uint32_t lane_table::next_epoch(std::uint16_t lane) const noexcept {
  const record& l = lanes_[lane];
  std::uint32_t last = l.epoch;
  for (const auto& closed : {l.closed_epoch, l.peer_closed_epoch}) {
    if (closed && ahead(*closed, last) > 0) last = *closed;
  }
  return last + 1;
}

void lane_table::up(std::uint16_t lane, std::uint32_t epoch, bool is_standby) noexcept {
  record& l = lanes_[lane];
  l.is_standby = is_standby;
  l.at = state::up;
  l.closing = false;
  l.epoch = epoch;
}

void lane_table::lost(std::uint16_t lane) noexcept {
  record& l = lanes_[lane];
  l.at = state::lost;
  l.closing = false;
  // If the peer closed first, its fence was received already.
  l.awaits_peer_fence = !l.peer_closed_epoch || ahead(*l.peer_closed_epoch, l.epoch) < 0;
  l.closed_epoch = l.epoch;
  l.fence_due = true;
  ++l.draining;
}

void lane_table::quiesced(std::uint16_t lane) noexcept {
  record& l = lanes_[lane];
  if (l.draining > 0) --l.draining;
}

void lane_table::fenced_by_peer(std::uint16_t lane, std::uint32_t epoch,
                                bool needs_reply) noexcept {
  record& l = lanes_[lane];
  if (!l.peer_closed_epoch || ahead(epoch, *l.peer_closed_epoch) > 0) l.peer_closed_epoch = epoch;
  if (closes_live(lane, epoch)) {
    l.closing = true;  // our own fence follows
    return;
  }
  if (!l.closed_epoch || ahead(epoch, *l.closed_epoch) > 0) l.closed_epoch = epoch;
  if (ahead(epoch, *l.closed_epoch) >= 0) l.awaits_peer_fence = false;
  if (needs_reply) l.fence_due = true;
}

std::optional<lane_table::fence> lane_table::next_fence() noexcept {
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    record& l = lanes_[i];
    if (!l.fence_due || l.draining > 0) continue;
    l.fence_due = false;
    return fence{i, *l.closed_epoch, l.awaits_peer_fence};
  }
  return std::nullopt;
}

std::string_view name(lane_table::state of) noexcept {
  switch (of) {
    case lane_table::state::up:
      return "up";
    case lane_table::state::suspect:
      return "suspect";
    case lane_table::state::lost:
      return "lost";
    default:
      return "absent";
  }
}

}  // namespace tandem::rails
