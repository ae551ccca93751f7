// RDMA writes of chunks into the peer's views.
#include <algorithm>

#include "rails/core.hpp"

namespace tandem::rails {

void core::use_registrar(memory_registrar* who) noexcept {
  registrar_ = who;
  send_window_.use_registrar(who);
  reassembly_.use_registrar(who);
  session_.set_remote_write_grants(who == nullptr ? nullptr : this);
}

/// Writes are granted over the lanes that are up now; later lanes carry the chunks as streams.
void core::grant_writes(operation& op, std::uint64_t message_bytes,
                        std::vector<protocol::grant>& grants) {
  for (std::uint16_t i = 0; i < lanes_.size() && grants.size() < protocol::max_grants; ++i) {
    if (!is_live(i) || lanes_[i].closing) continue;
    const auto key = registrar_->register_for_peer(i, op, message_bytes);
    if (!key) continue;
    const auto address = reinterpret_cast<std::uint64_t>(op.view.data);
    grants.push_back({address, *key, lanes_[i].epoch, i});
    dma_tracker_.grant_writes(op, i, lanes_[i].epoch);
  }
  if (!grants.empty()) ++op.pins;
}

bool core::is_granted(const operation& op) const noexcept {
  return dma_tracker_.is_granted(op);
}

void core::grants_ended(const operation& op) noexcept {
  dma_tracker_.grants_ended(op);
}

void core::view_released(operation& op) noexcept {
  registrar_->deregister(op);
}

/// A chunk is written in place where the peer has granted writes over this lane and this end's NIC
/// can read the payload. The head is marked accordingly, and is sent after the write.
void core::place(std::uint16_t lane, lane_write& out) {
  packet& p = *out.of;
  const protocol::frame& f = p.out.header;
  const bool is_chunk = f.type == protocol::frame_type::data && out.payload.bytes > 0;
  if (registrar_ == nullptr || !is_chunk || p.out.op == nullptr) return;
  const protocol::grant* const granted = session_.grant_for(f, lane, lanes_[lane].epoch);
  if (granted == nullptr) return;
  const auto key = registrar_->register_for_read(lane, *p.out.op, out.payload.bytes);
  if (!key) return;
  p.out.header.flags |= protocol::direct_placement;
  // The peer's CPU could not verify a checksum of device memory either.
  if (out.payload.kind != memory_kind::host) p.out.header.payload_crc = 0;
  session_.placed(p.out.header);
  out.placed = lane_write::remote_write{granted->address + f.offset, granted->key, *key,
                                        dma_tracker::token_of(lanes_[lane].epoch, p.number)};
}

bool core::prepare_payload(lane_write& out) {
  if (!send_window_.prepare_payload(*out.of)) return false;
  out.payload = out.of->payload_view();
  return true;
}

void core::write_frame(lane_write& out) {
  protocol::wire_frame encoded;
  protocol::encode(out.of->out.header, encoded);
  std::copy(encoded.begin(), encoded.end(), out.head.begin() + envelope_bytes);
}

void core::cancel_placement(lane_write& p) {
  if (!p.placed) return;
  p.placed.reset();
  send_window_.cancel_placement(*p.of);
  if (prepare_payload(p)) {
    write_frame(p);
  } else {
    p.head_bytes = 0;
    p.payload = {};
  }
}

void core::placing(std::uint16_t lane, const lane_write& p) {
  operation& op = *p.of->out.op;
  ++op.pins;
  dma_tracker_.begin_read(lane, p.placed->token, op);
}

void core::placed(std::uint16_t lane, dma_tracker::token which) {
  operation* const op = dma_tracker_.end_read(lane, which);
  if (op != nullptr) session_.unpin(*op);
}

void core::lane_quiesced(std::uint16_t lane, std::uint32_t epoch) {
  lane_record& l = lanes_[lane];
  if (l.draining > 0) --l.draining;
  std::vector<operation*> read_ops, granted_ops;
  dma_tracker_.lane_quiesced(lane, epoch, read_ops, granted_ops);
  for (operation* const op : read_ops) session_.unpin(*op);
  // A receive that continues over other lanes keeps its view.
  for (operation* const op : granted_ops) {
    if (op->at == operation::phase::done) session_.grants_ended(*op);
  }
}

}  // namespace tandem::rails
