#include "protocol/incoming_messages.hpp"

#include <algorithm>

namespace tandem::protocol {

bool incoming_message::may_arrive(const frame& f, chunk_order order) const noexcept {
  if (f.offset > total || f.payload_bytes > total - f.offset ||
      (f.payload_bytes == 0 && total > 0)) {
    return false;
  }
  if (order == chunk_order::ascending) return f.offset == received;
  const bool is_whole = f.offset % chunk_bytes == 0 &&
                        (f.payload_bytes % chunk_bytes == 0 || f.offset + f.payload_bytes == total);
  if (!is_whole) return false;
  const auto [first, last] = chunks_of(f);
  for (std::size_t i = first; i < std::min(last, arrived.size()); ++i) {
    if (arrived[i]) return false;
  }
  return true;
}

void incoming_message::add_arrived(const frame& f, chunk_order order) {
  received += f.payload_bytes;
  if (order == chunk_order::ascending) return;
  const auto [first, last] = chunks_of(f);
  if (last > arrived.size()) arrived.resize(last);
  for (std::size_t i = first; i < last; ++i) arrived[i] = true;
}

void incoming_message::clear() noexcept {
  std::vector<bool> kept = std::move(arrived);
  kept.clear();
  *this = {};
  arrived = std::move(kept);
}

std::pair<std::size_t, std::size_t> incoming_message::chunks_of(const frame& f) const noexcept {
  const std::size_t first = f.offset / chunk_bytes;
  const std::size_t count = (f.payload_bytes + chunk_bytes - 1) / chunk_bytes;
  return {first, first + std::max<std::size_t>(count, 1)};
}

incoming_message* incoming_messages::find(std::uint64_t id) noexcept {
  const std::size_t slot = slot_of(id);
  const auto is_it = [id](const incoming_message& each) {
    return each.at != incoming_message::state::free && each.id == id;
  };
  if (slot < by_slot_.size() && is_it(by_slot_[slot])) return &by_slot_[slot];
  const auto found = std::find_if(ending_.begin(), ending_.end(), is_it);
  return found != ending_.end() ? &*found : nullptr;
}

incoming_message* incoming_messages::allocate(std::uint64_t id, const open_payloads& open) {
  const std::size_t slot = slot_of(id);
  if (slot >= by_slot_.size()) by_slot_.resize(slot + 1);
  incoming_message& message = by_slot_[slot];
  const bool is_free = message.at == incoming_message::state::free || release(message, open);
  return is_free ? &message : nullptr;
}

/// Where payloads arrive later than their frames, a sender may reuse the slot of a message whose
/// last chunks are still arriving here. False: some chunks have not begun to arrive.
bool incoming_messages::release(incoming_message& message, const open_payloads& open) {
  const std::uint64_t coming = message.received + open.bytes_of(message.id);
  if (message.at != incoming_message::state::accepted || coming != message.total) return false;
  std::erase_if(ending_,
                [](const incoming_message& e) { return e.at == incoming_message::state::free; });
  ending_.push_back(std::exchange(message, {}));
  return true;
}

}  // namespace tandem::protocol
