// RDMA writes of chunks into the peer's views.
#include <algorithm>

#include "rails/core.hpp"

namespace tandem::rails {

void core::kept_by(keeper* who) noexcept {
  keeper_ = who;
  departures_.kept_by(who);
  reception_.kept_by(who);
  session_.lends_by(who == nullptr ? nullptr : this);
}

/// Writes are granted over the lanes that are up now; later lanes carry the chunks as streams.
void core::lend(operation& op, std::uint64_t message_bytes, std::vector<protocol::grant>& grants) {
  for (std::uint16_t i = 0; i < lanes_.size() && grants.size() < protocol::most_grants; ++i) {
    if (!is_live(i) || lanes_[i].closing) continue;
    const auto key = keeper_->let_peer_write(i, op, message_bytes);
    if (!key) continue;
    const auto address = reinterpret_cast<std::uint64_t>(op.view.data);
    grants.push_back({address, *key, lanes_[i].epoch, i});
    touched_.lend(op, i, lanes_[i].epoch);
  }
  if (!grants.empty()) ++op.pins;
}

bool core::is_lent(const operation& op) const noexcept {
  return touched_.is_lent(op);
}

void core::returned(const operation& op) noexcept {
  touched_.returned(op);
}

void core::settled(operation& op) noexcept {
  keeper_->let_go(op);
}

/// A chunk is written in place where the peer has granted writes over this lane and this end's NIC
/// can read the payload. The head is marked accordingly, and is sent after the write.
void core::place(std::uint16_t lane, piece& out) {
  parcel& p = *out.of;
  const protocol::frame& f = p.out.header;
  const bool is_chunk = f.type == protocol::frame_type::data && out.payload.bytes > 0;
  if (keeper_ == nullptr || !is_chunk || p.out.op == nullptr) return;
  const protocol::grant* const granted = session_.way_for(f, lane, lanes_[lane].epoch);
  if (granted == nullptr) return;
  const auto key = keeper_->let_nic_read(lane, *p.out.op, out.payload.bytes);
  if (!key) return;
  p.out.header.flags |= protocol::in_place;
  // The peer's CPU could not verify a checksum of device memory either.
  if (out.payload.kind != memory_kind::host) p.out.header.payload_crc = 0;
  session_.placed(p.out.header);
  out.placed = piece::way{granted->address + f.offset, granted->key, *key,
                          touched::token_of(lanes_[lane].epoch, p.number)};
}

bool core::carry(piece& out) {
  if (!departures_.carry(*out.of)) return false;
  out.payload = out.of->carried();
  return true;
}

void core::write_frame(piece& out) {
  protocol::wire_frame encoded;
  protocol::encode(out.of->out.header, encoded);
  std::copy(encoded.begin(), encoded.end(), out.head.begin() + envelope_bytes);
}

void core::displace(piece& p) {
  if (!p.placed) return;
  p.placed.reset();
  departures_.displace(*p.of);
  if (carry(p)) {
    write_frame(p);
  } else {
    p.head_bytes = 0;
    p.payload = {};
  }
}

void core::placing(std::uint16_t lane, const piece& p) {
  operation& op = *p.of->out.op;
  ++op.pins;
  touched_.reads(lane, p.placed->token, op);
}

void core::placed(std::uint16_t lane, touched::token which) {
  operation* const op = touched_.read(lane, which);
  if (op != nullptr) session_.unpin(*op);
}

void core::lane_quiet(std::uint16_t lane, std::uint32_t epoch) {
  lane_record& l = lanes_[lane];
  if (l.draining > 0) --l.draining;
  std::vector<operation*> read_ops, granted_ops;
  touched_.quiet(lane, epoch, read_ops, granted_ops);
  for (operation* const op : read_ops) session_.unpin(*op);
  // A receive that continues over other lanes keeps its view.
  for (operation* const op : granted_ops) {
    if (op->at == operation::phase::done) session_.returned(*op);
  }
}

}  // namespace tandem::rails
