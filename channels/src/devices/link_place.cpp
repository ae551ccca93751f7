// Payloads that a copy engine here writes into the peer's views, as NICs do. The receiver sends a
// write grant before its accept, and revokes it when the sender reports that it writes no more.
//
// Over NVLink, writing is faster than reading (`bench/gpu_copies`), and needs no acknowledgement.
#include <fmt/format.h>

#include <algorithm>

#include "devices/link.hpp"

namespace tandem::devices {

/// True: `current_target_` is set. False also for an allocation that the peer has retired
/// meanwhile.
bool link::can_be_placed(const protocol::outgoing& out) {
  if (!imports_ || out.payload.kind == memory_kind::host) return false;
  const protocol::grant* const granted = session_.way_for(out.header, 0, 0);
  if (granted == nullptr) return false;
  const std::uint64_t left = out.op->view.bytes - out.header.offset;
  std::string why;
  try {
    accelerator& of = copiers_->of(out.payload).of();
    const shared_place at{granted->key, granted->address + out.header.offset};
    const auto found = imports_->find(at, left, of, why);
    if (found) one_goes_to_ = *found;
    return found.has_value();
  } catch (const error&) {
    return false;
  }
}

/// Writes the current chunk, and as many chunks after it as fit one copy; their frame is sent when
/// the copy is complete. False: no room.
bool link::place() {
  if (!has_room_for_referral()) return false;
  referral& r = take_referral();
  one_.header.flags |= protocol::in_place;
  gather_chunks(r, true);
  session_.placed(r.out.header);
  r.is_placed = true;
  r.by = &copiers_->of(one_.payload);
  r.mapped = one_goes_to_.keep;
  // NOLINTNEXTLINE: what is imported is read or written
  return begin_copy(r, copier::way::to_peer, const_cast<void*>(one_goes_to_.from));
}

/// Copies the payload of `r` and then calls `staged_done`. @return true: submitted or failed
bool link::begin_copy(referral& r, copier::way which, void* to) {
  try {
    r.by->copy(which, to, r.out.payload.data, r.out.payload.bytes, r.staged);
  } catch (const error& why) {
    staged_over(r, std::make_shared<const error>(why));
    return true;
  }
  r.is_staging = true;
  went_out();
  return true;
}

void link::staged_over(referral& r, const std::shared_ptr<const error>& failure) {
  r.is_staging = false;
  if (session_.is_over()) return let_go(r);
  if (!failure) return send_reference(r);
  const protocol::outgoing lost = r.out;
  let_go(r);
  session_.spoil(lost, *failure);
}

void link::land_placed(const protocol::frame& f) {
  if (f.type != protocol::frame_type::data) {
    return broken(fmt::format("an eager message of {} bytes in place", f.payload_bytes));
  }
  protocol::landing where;
  if (!session_.begin(f, where)) return broken(session_.violation());
  session_.end(where);
}

void link::lend(operation& op, std::uint64_t bytes, std::vector<protocol::grant>& grants) {
  if (op.view.kind == memory_kind::host) return;
  try {
    accelerator& of = copiers_->of(op.view).of();
    const auto at = exports_->find(of, const_view(op.view).part(0, bytes));
    if (!at) return;
    grants.push_back({.address = at->offset, .key = at->allocation});
  } catch (const error&) {
    return;
  }
  ++op.pins;
  lent_views_.push_back(&op);
}

bool link::is_lent(const operation& op) const noexcept {
  return std::find(lent_views_.begin(), lent_views_.end(), &op) != lent_views_.end();
}

void link::returned(const operation& op) noexcept {
  std::erase(lent_views_, &op);
}

/// The peer writes no more: its process has exited, or its last copies have had time to complete.
void link::take_views_back() {
  while (!lent_views_.empty()) {
    operation& op = *lent_views_.back();
    session_.returned(op);
    std::erase(lent_views_, &op);
  }
}

}  // namespace tandem::devices
