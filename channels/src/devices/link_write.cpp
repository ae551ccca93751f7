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
bool link::can_be_placed(const protocol::outgoing_frame& out) {
  if (!imports_ || out.payload.kind == memory_kind::host) return false;
  const protocol::grant* const granted = session_.grant_for(out.header, 0, 0);
  if (granted == nullptr) return false;
  const std::uint64_t left = out.op->view.bytes - out.header.offset;
  std::string why;
  try {
    accelerator& of = copiers_->of(out.payload).of();
    const shared_location at{granted->key, granted->address + out.header.offset};
    const auto found = imports_->find(at, left, of, why);
    if (found) current_target_ = *found;
    return found.has_value();
  } catch (const error&) {
    return false;
  }
}

/// Writes the current chunk, and as many chunks after it as fit one copy; their frame is sent when
/// the copy is complete. False: no room.
bool link::write_in_place() {
  if (!has_room_for_read_request()) return false;
  read_request& r = take_read_request();
  current_.header.flags |= protocol::direct_placement;
  take_chunks(r, true);
  session_.placed(r.out.header);
  r.is_placed = true;
  r.by = &copiers_->of(current_.payload);
  r.mapped = current_target_.keep;
  // NOLINTNEXTLINE: what is imported is read or written
  return begin_copy(r, copier::copy_kind::to_peer, const_cast<void*>(current_target_.from));
}

/// Copies the payload of `r` and then calls `staged_done`. @return true: submitted or failed
bool link::begin_copy(read_request& r, copier::copy_kind which, void* to) {
  try {
    r.by->copy(which, to, r.out.payload.data, r.out.payload.bytes, r.staged);
  } catch (const error& why) {
    staged_done(r, std::make_shared<const error>(why));
    return true;
  }
  r.is_staging = true;
  begin_async();
  return true;
}

void link::staged_done(read_request& r, const std::shared_ptr<const error>& failure) {
  r.is_staging = false;
  if (session_.is_over()) return release(r);
  if (!failure) return send_reference(r);
  const protocol::outgoing_frame lost = r.out;
  release(r);
  session_.fail_payload(lost, *failure);
}

void link::receive_placed(const protocol::frame& f) {
  if (f.type != protocol::frame_type::data) {
    return protocol_violation(
        fmt::format("an eager message of {} bytes in place", f.payload_bytes));
  }
  protocol::incoming_payload where;
  if (!session_.begin(f, where)) return protocol_violation(session_.violation());
  session_.end(where);
}

void link::grant_writes(operation& op, std::uint64_t bytes, std::vector<protocol::grant>& grants) {
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
  granted_views_.push_back(&op);
}

bool link::is_granted(const operation& op) const noexcept {
  return std::find(granted_views_.begin(), granted_views_.end(), &op) != granted_views_.end();
}

void link::grants_ended(const operation& op) noexcept {
  std::erase(granted_views_, &op);
}

/// The peer writes no more: its process has exited, or its last copies have had time to complete.
void link::end_all_grants() {
  while (!granted_views_.empty()) {
    operation& op = *granted_views_.back();
    session_.grants_ended(op);
    std::erase(granted_views_, &op);
  }
}

}  // namespace tandem::devices
