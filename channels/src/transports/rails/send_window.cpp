#include "transports/rails/send_window.hpp"

#include <cstring>
#include <tandem/detail/crc32c.hpp>

namespace tandem::rails {

using protocol::frame_type;

packet* send_window::next(std::uint16_t lane, std::uint32_t epoch) {
  packet* p = resend(lane, epoch);
  if (p == nullptr) p = next_new(lane, epoch);
  if (p != nullptr) in_flight_bytes_[lane] += p->bytes();
  return p;
}

packet* send_window::resend(std::uint16_t lane, std::uint32_t epoch) {
  while (!waiting_.empty()) {
    const std::uint32_t number = waiting_.front();
    waiting_.pop_front();
    if (ahead(number, lowest_) < 0) continue;  // received meanwhile
    packet& p = at(number);
    if (p.at != packet::state::waiting) continue;
    p.lane = lane;
    p.epoch = epoch;
    p.at = packet::state::writing;
    add_checksum(p);
    ++resent_;
    return &p;
  }
  return nullptr;
}

packet* send_window::next_new(std::uint16_t lane, std::uint32_t epoch) {
  if (upcoming_ - lowest_ == max_packets) return nullptr;
  protocol::outgoing_frame out;
  if (!session_.next(out)) {
    if (!close_frame_) return nullptr;
    out = {*close_frame_, {}, nullptr};
    close_frame_.reset();
  }
  packet& p = packets_.emplace_back();
  p.out = out;
  p.number = upcoming_++;
  p.lane = lane;
  p.epoch = epoch;
  p.order = 0;
  if (p.out.header.type != frame_type::data) {
    if (++last_order_ == 0) ++last_order_;
    p.order = last_order_;
  }
  p.at = packet::state::writing;
  if (protocol::carries_payload(p.out.header.type)) retain_payload(p);
  return &p;
}

/// The send of an eager message completes at once, so its payload is copied; the view of a chunk
/// stays valid until the peer has received it.
void send_window::retain_payload(packet& p) {
  if (p.out.header.type == frame_type::data) return add_checksum(p);
  copy_payload(p);
  if (p.is_unreadable) return;
  session_.sent(p.out);
  p.out.op = nullptr;
  p.out.payload = p.payload_view();
  add_checksum(p);
}

void send_window::copy_payload(packet& p) {
  const const_view from = p.out.payload;
  p.copy = copies_.take(from.bytes);
  if (from.bytes == 0) return;
  if (from.kind == memory_kind::host) {
    std::memcpy(p.copy.get(), from.data, from.bytes);
  } else {
    p.is_unreadable = !registrar_->fetch(from, p.copy.get());
  }
}

/// A packet that was to be placed meanwhile has lost its checksum, so it is computed again.
bool send_window::prepare_payload(packet& p) {
  if (p.out.payload.kind != memory_kind::host) {
    if (!p.copy) copy_payload(p);
    add_checksum(p);
  }
  return !p.is_unreadable;
}

/// A packet keeps its checksum when it is sent again. Memory that only NICs read has none.
void send_window::add_checksum(packet& p) const noexcept {
  const const_view from = p.payload_view();
  if (from.kind != memory_kind::host) return;
  if (!checksums_[p.lane] || from.bytes == 0 || p.out.header.payload_crc != 0) return;
  p.out.header.payload_crc = crc32c(from.data, from.bytes);
}

void send_window::written(packet& p) noexcept {
  if (p.at == packet::state::writing) p.at = packet::state::in_flight;
}

bool send_window::on_report(std::uint32_t arrived, std::span<const std::byte> body) {
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
  pop_acknowledged();
  return true;
}

void send_window::pop_acknowledged() noexcept {
  for (; !packets_.empty() && packets_.front().at == packet::state::free; ++lowest_) {
    packets_.pop_front();
  }
}

/// A packet that is still being written cannot have been received: its payload is in use.
bool send_window::has_arrived(std::uint32_t number) {
  packet& p = at(number);
  if (p.at == packet::state::writing) return false;
  if (p.at != packet::state::free) release(p);
  return true;
}

void send_window::release(packet& p) {
  if (p.at == packet::state::in_flight) in_flight_bytes_[p.lane] -= p.bytes();
  arrived_[p.lane] += p.bytes();
  p.at = packet::state::free;
  copies_.give_back(std::move(p.copy), p.out.payload.bytes);
  if (p.out.header.type == frame_type::data && !p.is_void()) session_.sent(p.out);
}

void send_window::cancel_placement(packet& p) {
  protocol::frame& f = p.out.header;
  if (!protocol::is_placed(f)) return;
  f.flags &= static_cast<std::uint16_t>(~protocol::direct_placement);
  session_.placement_ended(f);
}

void send_window::wait(packet& p) {
  cancel_placement(p);
  if (p.is_void()) {
    p.at = packet::state::free;
    return;
  }
  p.at = packet::state::waiting;
  waiting_.push_back(p.number);
}

void send_window::lane_lost(std::uint16_t lane, std::uint32_t epoch) {
  packets_.for_each([&](packet& p) {
    const bool on_it = p.at == packet::state::writing || p.at == packet::state::in_flight;
    if (!on_it || p.lane != lane || ahead(p.epoch, epoch) > 0) return;
    in_flight_bytes_[lane] -= p.bytes();
    p.at = packet::state::orphan;
  });
}

void send_window::lane_fenced(std::uint16_t lane, std::uint32_t epoch) {
  packets_.for_each([&](packet& p) {
    if (p.at == packet::state::orphan && p.lane == lane && ahead(p.epoch, epoch) <= 0) wait(p);
  });
  pop_acknowledged();
}

void send_window::drop_chunks() {
  packets_.for_each([](packet& p) {
    if (p.out.header.type != frame_type::data) return;
    p.out.op = nullptr;
    if (p.at == packet::state::waiting) p.at = packet::state::free;
  });
  pop_acknowledged();
}

}  // namespace tandem::rails
