// Chunks that a NIC places directly.
#include <algorithm>

#include "protocol/outbox.hpp"

namespace tandem::protocol {

bool outbox::on_grant(const frame& f) {
  slot* const s = find_slot(f.message_id);
  if (s == nullptr) return f.message_id >> 16 <= number_;  // withdrawn meanwhile
  const auto same = [&f](const grant& each) { return each.lane == f.flags; };
  const bool is_known = std::any_of(s->grants.begin(), s->grants.end(), same);
  if (s->accepted || is_known || s->grants.size() == max_grants) return false;
  s->grants.push_back({f.offset, f.chunk_index, f.rail_epoch, f.flags});
  return true;
}

/// A message that has ended here has been placed completely, so the revoke is confirmed at once.
bool outbox::on_revoke(const frame& f) {
  slot* const s = find_slot(f.message_id);
  if (s == nullptr) {
    if (f.message_id >> 16 > number_) return false;
    send_revoked(f.flow, f.message_id);
    return true;
  }
  if (!s->accepted || s->revoked) return false;
  s->revoked = true;
  s->grants.clear();
  if (s->placements == 0) send_revoked(f.flow, s->id);
  return true;
}

void outbox::send_revoked(flow_id flow, std::uint64_t id) {
  frame f;
  f.type = frame_type::revoked;
  f.flow = flow;
  f.message_id = id;
  withdrawals_.push_back(f);
}

const grant* outbox::grant_for(const frame& chunk, std::uint16_t lane,
                               std::uint32_t epoch) noexcept {
  const slot* const s = find_slot(chunk.message_id);
  if (s == nullptr) return nullptr;
  for (const grant& each : s->grants) {
    if (each.lane == lane && each.epoch == epoch) return &each;
  }
  return nullptr;
}

void outbox::placed(const frame& chunk) noexcept {
  if (slot* const s = find_slot(chunk.message_id)) ++s->placements;
}

void outbox::placement_ended(const frame& chunk) {
  slot* const s = find_slot(chunk.message_id);
  if (s == nullptr) return;
  --s->placements;
  if (s->revoked && s->placements == 0) send_revoked(chunk.flow, s->id);
}

}  // namespace tandem::protocol
