#include "rails/departures.hpp"

#include <cstring>
#include <tandem/crc32c.hpp>

namespace tandem::rails {

using protocol::frame_type;

parcel* departures::next(std::uint16_t lane, std::uint32_t epoch) {
  parcel* p = resend(lane, epoch);
  if (p == nullptr) p = fresh(lane, epoch);
  if (p != nullptr) underway_[lane] += p->bytes();
  return p;
}

parcel* departures::resend(std::uint16_t lane, std::uint32_t epoch) {
  while (!waiting_.empty()) {
    const std::uint32_t number = waiting_.front();
    waiting_.pop_front();
    if (ahead(number, lowest_) < 0) continue;  // received meanwhile
    parcel& p = at(number);
    if (p.at != parcel::state::waiting) continue;
    p.lane = lane;
    p.epoch = epoch;
    p.at = parcel::state::writing;
    guard(p);
    ++resent_;
    return &p;
  }
  return nullptr;
}

parcel* departures::fresh(std::uint16_t lane, std::uint32_t epoch) {
  if (upcoming_ - lowest_ == most_parcels) return nullptr;
  protocol::outgoing out;
  if (!session_.next(out)) {
    if (!last_word_) return nullptr;
    out = {*last_word_, {}, nullptr};
    last_word_.reset();
  }
  parcel& p = parcels_.emplace_back();
  p.out = out;
  p.number = upcoming_++;
  p.lane = lane;
  p.epoch = epoch;
  p.order = 0;
  if (p.out.header.type != frame_type::data) {
    if (++last_order_ == 0) ++last_order_;
    p.order = last_order_;
  }
  p.at = parcel::state::writing;
  if (protocol::carries_payload(p.out.header.type)) keep(p);
  return &p;
}

/// The send of an eager message completes at once, so its payload is copied; the view of a chunk
/// stays valid until the peer has received it.
void departures::keep(parcel& p) {
  if (p.out.header.type == frame_type::data) return guard(p);
  read(p);
  if (p.is_unread) return;
  session_.sent(p.out);
  p.out.op = nullptr;
  p.out.payload = p.carried();
  guard(p);
}

void departures::read(parcel& p) {
  const const_view from = p.out.payload;
  p.copy = std::make_unique_for_overwrite<std::byte[]>(from.bytes);
  if (from.bytes == 0) return;
  if (from.kind == memory_kind::host) {
    std::memcpy(p.copy.get(), from.data, from.bytes);
  } else {
    p.is_unread = !keeper_->fetch(from, p.copy.get());
  }
}

/// A packet that was to be placed meanwhile has lost its checksum, so it is computed again.
bool departures::carry(parcel& p) {
  if (p.out.payload.kind != memory_kind::host) {
    if (!p.copy) read(p);
    guard(p);
  }
  return !p.is_unread;
}

/// A packet keeps its checksum when it is sent again. Memory that only NICs read has none.
void departures::guard(parcel& p) const noexcept {
  const const_view from = p.carried();
  if (from.kind != memory_kind::host) return;
  if (!checksums_[p.lane] || from.bytes == 0 || p.out.header.payload_crc != 0) return;
  p.out.header.payload_crc = crc32c(from.data, from.bytes);
}

void departures::written(parcel& p) noexcept {
  if (p.at == parcel::state::writing) p.at = parcel::state::underway;
}

bool departures::on_report(std::uint32_t arrived, std::span<const std::byte> body) {
  if (ahead(arrived, upcoming_) > 0) return false;
  for (std::uint32_t number = lowest_; ahead(number, arrived) < 0; ++number) {
    if (!has_arrived(number)) return false;
  }
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] == std::byte{0}) continue;
    for (std::uint32_t bit = 0; bit < 8; ++bit) {
      if ((body[i] >> bit & std::byte{1}) == std::byte{0}) continue;
      const std::uint32_t number = arrived + static_cast<std::uint32_t>(8 * i) + bit;
      if (ahead(number, lowest_) < 0) continue;  // an old report
      if (ahead(number, upcoming_) >= 0 || !has_arrived(number)) return false;
    }
  }
  forget_oldest();
  return true;
}

void departures::forget_oldest() noexcept {
  for (; !parcels_.empty() && parcels_.front().at == parcel::state::free; ++lowest_) {
    parcels_.pop_front();
  }
}

/// A packet that is still being written cannot have been received: its payload is in use.
bool departures::has_arrived(std::uint32_t number) {
  parcel& p = at(number);
  if (p.at == parcel::state::writing) return false;
  if (p.at != parcel::state::free) release(p);
  return true;
}

void departures::release(parcel& p) {
  if (p.at == parcel::state::underway) underway_[p.lane] -= p.bytes();
  arrived_[p.lane] += p.bytes();
  p.at = parcel::state::free;
  p.copy.reset();
  if (p.out.header.type == frame_type::data && !p.is_void()) session_.sent(p.out);
}

void departures::displace(parcel& p) {
  protocol::frame& f = p.out.header;
  if (!protocol::is_placed(f)) return;
  f.flags &= static_cast<std::uint16_t>(~protocol::in_place);
  session_.displaced(f);
}

void departures::wait(parcel& p) {
  displace(p);
  if (p.is_void()) {
    p.at = parcel::state::free;
    return;
  }
  p.at = parcel::state::waiting;
  waiting_.push_back(p.number);
}

void departures::lane_lost(std::uint16_t lane, std::uint32_t epoch) {
  for (parcel& p : parcels_) {
    const bool on_it = p.at == parcel::state::writing || p.at == parcel::state::underway;
    if (!on_it || p.lane != lane || ahead(p.epoch, epoch) > 0) continue;
    underway_[lane] -= p.bytes();
    p.at = parcel::state::orphan;
  }
}

void departures::lane_fenced(std::uint16_t lane, std::uint32_t epoch) {
  for (parcel& p : parcels_) {
    if (p.at == parcel::state::orphan && p.lane == lane && ahead(p.epoch, epoch) <= 0) wait(p);
  }
  forget_oldest();
}

void departures::forget_chunks() {
  for (parcel& p : parcels_) {
    if (p.out.header.type != frame_type::data) continue;
    p.out.op = nullptr;
    if (p.at == parcel::state::waiting) p.at = parcel::state::free;
  }
  forget_oldest();
}

}  // namespace tandem::rails
