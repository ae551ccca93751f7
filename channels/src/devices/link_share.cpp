// Device payloads through shared staging: a copy engine here writes it, the peer's reads it, and no
// processor touches a byte.
//
// Only chunks of announced messages: their order does not matter, so a frame can wait until its
// bytes are staged.
#include <fmt/format.h>

#include <algorithm>
#include <tandem/log.hpp>

#include "devices/link.hpp"

namespace tandem::devices {
bool link::can_be_shared(const protocol::outgoing_frame& out) const {
  return out.payload.kind != memory_kind::host && out.header.type == protocol::frame_type::data &&
         offers_[vendor_index(out.payload.kind)] == offer::open;
}

/// Stages the current frame's payload; the frame is sent when that is complete. False: no room.
bool link::stage_shared() {
  if (!has_room_for_read_request()) return false;
  copier& by = copiers_->of(current_.payload);
  std::byte* const slot = staging_out_.take(by.of(), current_.payload.bytes);
  if (slot == nullptr) return false;
  const memory_kind vendor = by.of().kind();
  read_request& r = take_read_request();
  take_chunks(r, false);
  r.by = &by;
  r.slot = slot;
  r.at = {staging_id(vendor), staging_out_.offset_of(vendor, slot)};
  return begin_copy(r, copier::copy_kind::to_host, slot);
}

/// Shared staging is allocated that is not offered to the peer yet.
bool link::has_staging_to_offer() const noexcept {
  return shares_staging_ && std::any_of(vendors.begin(), vendors.end(), [this](memory_kind vendor) {
           return offers_[vendor_index(vendor)] == offer::none && staging_out_.shared_at(vendor);
         });
}

/// Offers staging once it is allocated: with the first message, which goes by the inner channel.
void link::offer_staging() {
  if (!shares_staging_) return;
  for (const memory_kind vendor : vendors) {
    offer& at = offers_[vendor_index(vendor)];
    if (at != offer::none) continue;
    const std::optional<shared_pages::location> where = staging_out_.shared_at(vendor);
    if (!where) continue;
    at = offer::pending;
    control_message made{.what = control_message::type::described, .id = staging_id(vendor)};
    made.allocation = describe_staging(made.id, *where);
    send_control(made);
  }
}

/// The peer's answer to an offer. False: it was never offered.
bool link::staging_answered(const control_message& answer) {
  for (const memory_kind vendor : vendors) {
    offer& at = offers_[vendor_index(vendor)];
    if (staging_id(vendor) != answer.id || at != offer::pending) continue;
    at = answer.what == control_message::type::opened ? offer::open : offer::refused;
    if (at == offer::refused) {
      log(log_level::info, "devices",
          fmt::format("the peer cannot share staging: {}; messages of {} memory are copied between "
                      "the processes",
                      answer.why, name(vendor)));
    }
    return true;
  }
  return false;
}

}  // namespace tandem::devices
