// Memory of a link's NICs: registration, completed placements, and closing of lanes.
#include <boost/asio/post.hpp>

#include "rails/link.hpp"

namespace tandem::rails {

std::optional<std::uint32_t> link::register_for_peer(std::uint16_t by, operation& op,
                                                     std::uint64_t bytes) {
  if (!lanes_[by] || lanes_[by]->over->domain() == nullptr) return {};
  const mutable_view written = op.view.part(0, static_cast<std::size_t>(bytes));
  const registered_memory* const found = registrations_.find(*lanes_[by]->over, op, written, true);
  return found == nullptr ? std::nullopt : std::optional(found->remote_key);
}

std::optional<std::uint32_t> link::register_for_read(std::uint16_t by, operation& op,
                                                     std::size_t at_once) {
  if (!lanes_[by] || lanes_[by]->over->domain() == nullptr) return {};
  lane_connection& over = *lanes_[by]->over;
  if (at_once > over.max_placed_bytes()) return {};
  const registered_memory* const found = registrations_.find(over, op, op.view, false);
  return found == nullptr ? std::nullopt : std::optional(found->local_key);
}

/// Standby lanes are not considered.
bool link::is_zero_copy(const const_view& view) {
  bool found = false;
  for (const lane_ptr& l : lanes_) {
    if (!l || !l->open || l->over->is_standby()) continue;
    found = l->over->domain() != nullptr && (view.bytes == 0 || l->over->is_zero_copy(view));
    if (!found) return false;
  }
  if (found && view.kind != memory_kind::host) accepts_device_memory_ = true;
  return found;
}

bool link::fetch(const const_view& from, std::byte* to) noexcept {
  try {
    device_copier_.fetch(from, to);
    return true;
  } catch (const error& why) {
    asio::post(executor_, [self = shared_from_this(), why] { self->fail(why, true); });
    return false;
  }
}

void link::store(const std::byte* from, const mutable_view& to) {
  device_copier_.store(from, to);
}

void link::fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) {
  try {
    store(from.get(), op.view.part(0, bytes));
  } catch (const error& why) {
    core_.messages().fail_payload(op, why);
  }
}

/// The connection may outlive the link.
void link::watch_placements(lane& of) {
  of.over->on_placed([weak = weak_from_this(), index = of.index](std::uint64_t token) {
    const auto self = weak.lock();
    if (!self) return;
    self->core_.placed(index, token);
    self->complete_soon();
  });
}

/// Views that a NIC may still access are returned once the lane is quiesced; the link lives so
/// long.
void link::close(lane& which, bool reset) {
  which.open = false;
  const std::uint16_t index = which.index;
  const std::uint32_t epoch = core_.lane_epoch(index);
  which.over->close(reset);
  const bool is_quiesced = which.over->is_quiesced();
  core_.lane_lost(index, is_quiesced);
  complete_soon();
  if (is_quiesced) return;
  which.over->on_quiesced([self = shared_from_this(), index, epoch] {
    self->core_.lane_quiesced(index, epoch);
    self->after_event();
  });
}

}  // namespace tandem::rails
