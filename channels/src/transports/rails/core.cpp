#include "transports/rails/core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tandem/detail/crc32c.hpp>
#include <utility>

namespace tandem::rails {
namespace {

/// The same count as `packet::bytes` at the sender.
std::uint64_t on_wire_bytes(const protocol::frame& f) noexcept {
  return envelope_bytes + protocol::frame_bytes + f.payload_bytes;
}

}  // namespace

core::core(const protocol::limits& agreed, protocol::identity who,
           std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
           const timeouts& bounds, bool checksums)
    : session_(agreed, std::move(who), operation_timeout, protocol::chunk_order::any),
      send_window_(session_, lanes, checksums),
      reassembly_(session_, agreed),
      bounds_(bounds),
      lanes_(lanes),
      shares_(lanes_, send_window_),
      traffic_(lanes) {}

void core::fail(const error& reason, bool send_close) {
  if (session_.failed()) return;
  if (send_close && !session_.received_close()) {
    send_window_.send_last(protocol::close_frame_for(reason));
  }
  session_.fail(reason);
  send_window_.drop_chunks();
  reassembly_.forget();
}

void core::lane_up(std::uint16_t lane, std::uint32_t epoch, time_point now, bool is_standby,
                   bool has_integrity) {
  send_window_.lane_integrity(lane, has_integrity);
  lanes_.up(lane, epoch, is_standby);
  shares_.lane_up(lane, now);
  traffic_[lane].report_due = true;
  traffic_[lane].wrote_at = now;
  on_receive(lane, now);
}

void core::lane_lost(std::uint16_t lane, bool is_quiesced) {
  if (!is_live(lane)) return;
  inbound* const incoming = std::exchange(traffic_[lane].incoming, nullptr);
  if (incoming != nullptr) reassembly_.drop(*incoming);
  send_window_.lane_lost(lane, lane_epoch(lane));
  lanes_.lost(lane);
  if (is_quiesced) lane_quiesced(lane, lane_epoch(lane));
}

bool core::next(std::uint16_t lane, lane_write& out, time_point now) {
  if (!lanes_.is_open(lane)) return false;
  out.payload = {};
  out.of = nullptr;
  out.placed.reset();
  if (!next_fence(out) && !next_report(lane, out) && !next_packet(lane, out, now)) return false;
  traffic_[lane].wrote_at = now;
  return true;
}

bool core::next_packet(std::uint16_t lane, lane_write& out, time_point now) {
  if (!shares_.may_take_chunk(lane, session_.upcoming_chunk_bytes(), session_.accepted_bytes_left(),
                              now)) {
    shares_.pass_over(lane, now);
    return false;
  }
  session_.set_lane_count(lanes_.carrying());
  shares_.writing(lane, now);
  packet* const p = send_window_.next(lane, lane_epoch(lane));
  if (p == nullptr || p->is_unreadable) return false;
  if (p->out.header.type == protocol::frame_type::data) shares_.took_chunk(lane);
  envelope e;
  e.kind = envelope_kind::packet;
  e.lane = lane;
  e.epoch = lane_epoch(lane);
  e.number = p->number;
  e.order = p->order;
  write_envelope(e, out);
  out.head_bytes += protocol::frame_bytes;
  out.payload = p->out.payload;
  out.of = p;
  place(lane, out);
  if (!out.placed && !prepare_payload(out)) return false;
  write_frame(out);
  return true;
}

void core::written(const lane_write& p) noexcept {
  if (p.of != nullptr) send_window_.written(*p.of);
}

void core::write_envelope(envelope e, lane_write& out) const {
  e.arrived = reassembly_.arrived().next();
  if (e.body_bytes > 0) e.order = crc32c(out.head.data() + envelope_bytes, e.body_bytes);
  encode(e, std::span(out.head).first<envelope_bytes>());
  out.head_bytes = envelope_bytes + e.body_bytes;
}

bool core::next_fence(lane_write& out) {
  const std::optional<lane_table::fence> due = lanes_.next_fence();
  if (!due) return false;
  envelope e;
  e.kind = envelope_kind::fenced;
  e.lane = due->lane;
  e.epoch = due->epoch;
  e.number = due->needs_reply ? wants_reply : 0;
  const auto body = std::span(out.head).subspan<envelope_bytes, max_body_bytes>();
  e.body_bytes = static_cast<std::uint32_t>(reassembly_.arrived().write(body));
  write_envelope(e, out);
  return true;
}

bool core::next_report(std::uint16_t lane, lane_write& out) {
  bool& report_due = traffic_[lane].report_due;
  if (!report_due && !reassembly_.needs_report()) return false;
  report_due = false;
  reassembly_.reported();
  envelope e;
  e.kind = envelope_kind::report;
  e.lane = lane;
  e.epoch = lane_epoch(lane);
  const auto body = std::span(out.head).subspan<envelope_bytes, max_body_bytes>();
  e.body_bytes = static_cast<std::uint32_t>(reassembly_.arrived().write(body));
  write_envelope(e, out);
  return true;
}

bool core::take(std::uint16_t lane, const envelope& e, std::span<const std::byte> body,
                time_point now) {
  on_receive(lane, now);
  switch (e.kind) {
    case envelope_kind::report:
      if (!send_window_.on_report(e.arrived, body)) return violated("a report of unsent packets");
      break;
    case envelope_kind::fenced:
      if (!on_fenced(e, body)) return false;
      break;
    case envelope_kind::packet:
      return violated("a packet without a frame");
  }
  shares_.measure(now);
  return true;
}

/// The peer has closed this lane up to this epoch; its report of received packets is final.
bool core::on_fenced(const envelope& e, std::span<const std::byte> body) {
  if (e.lane >= lanes_.size()) return violated(fmt::format("a fence of unknown lane {}", e.lane));
  if (lanes_.closes_live(e.lane, e.epoch)) {
    if (e.epoch != lane_epoch(e.lane)) return violated("a fence of an epoch never used");
    send_window_.lane_lost(e.lane, e.epoch);
  }
  if (!send_window_.on_report(e.arrived, body)) return violated("a fence of unsent packets");
  send_window_.lane_fenced(e.lane, e.epoch);
  lanes_.fenced_by_peer(e.lane, e.epoch, (e.number & wants_reply) != 0);
  return true;
}

reassembly::outcome core::begin(std::uint16_t lane, const envelope& e, const protocol::frame& f,
                                inbound*& into) {
  into = nullptr;
  if (e.lane != lane || e.epoch != lane_epoch(lane)) {
    violated(fmt::format("a packet of lane {} epoch {} on lane {}", e.lane, e.epoch, lane));
    return reassembly::outcome::violated;
  }
  if (!send_window_.on_report(e.arrived, {})) {
    violated("a packet that reports unsent packets");
    return reassembly::outcome::violated;
  }
  const reassembly::outcome result = reassembly_.begin(e, f, into);
  lane_traffic& l = traffic_[lane];
  l.incoming = into;
  if (result == reassembly::outcome::taken) l.received_bytes += on_wire_bytes(f);
  return result;
}

reassembly::ending core::end(std::uint16_t lane) {
  lane_traffic& l = traffic_[lane];
  const std::uint64_t bytes = on_wire_bytes(l.incoming->frame);
  reassembly_.shared_by_lanes(lanes_.carrying() > 1);
  const reassembly::ending result = reassembly_.end(*l.incoming);
  // A damaged packet is dropped with its lane.
  if (result != reassembly::ending::damaged) l.incoming = nullptr;
  if (result == reassembly::ending::good) l.received_bytes += bytes;
  return result;
}

void core::on_receive(std::uint16_t lane, time_point now) noexcept {
  traffic_[lane].received_at = received_at_ = now;
  lanes_.received(lane);
}

void core::tick(time_point now) {
  const auto beat = bounds_.heartbeat();
  // Time in which this process did not run does not count as silence of the peer.
  const auto stalled = ticked_ ? now - *ticked_ - beat : time_point::duration::zero();
  if (stalled > 2 * beat) {
    received_at_ += stalled;
    answered_at_ += stalled;
    for (lane_traffic& l : traffic_) l.received_at += stalled;
  }
  ticked_ = now;
  reassembly_.request_report();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    lane_traffic& l = traffic_[i];
    lanes_.repeat_fence(i);
    if (!is_live(i)) continue;
    if (now - l.wrote_at >= beat) l.report_due = true;
    const auto silent = now - l.received_at;
    if (silent >= bounds_.suspect()) lanes_.suspect(i);
    // A peer that never sends its fence must not keep a view from its owner.
    if (dma_tracker_.has_overdue_grant(i, now, bounds_.peer)) lanes_.request_close(i);
    if (silent >= bounds_.lost && now - received_at_ < bounds_.suspect()) lanes_.request_close(i);
  }
  const bool was_received = received_at_ != time_point{};
  const time_point alive_at = std::max(received_at_, answered_at_);
  if (was_received && now - alive_at >= bounds_.peer) peer_silent_ = true;
}

// RDMA writes of chunks into the peer's views.

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
    if (!lanes_.is_open(i)) continue;
    const auto key = registrar_->register_for_peer(i, op, message_bytes);
    if (!key) continue;
    const auto address = reinterpret_cast<std::uint64_t>(op.view.data);
    grants.push_back({address, *key, lane_epoch(i), i});
    dma_tracker_.grant_writes(op, i, lane_epoch(i));
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
  const protocol::grant* const granted = session_.grant_for(f, lane, lane_epoch(lane));
  if (granted == nullptr) return;
  const auto key = registrar_->register_for_read(lane, *p.out.op, out.payload.bytes);
  if (!key) return;
  p.out.header.flags |= protocol::direct_placement;
  // The peer's CPU could not verify a checksum of device memory either.
  if (out.payload.kind != memory_kind::host) p.out.header.payload_crc = 0;
  session_.placed(p.out.header);
  out.placed = lane_write::remote_write{granted->address + f.offset, granted->key, *key,
                                        dma_tracker::token_of(lane_epoch(lane), p.number)};
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
  lanes_.quiesced(lane);
  std::vector<operation*> read_ops, granted_ops;
  dma_tracker_.lane_quiesced(lane, epoch, read_ops, granted_ops);
  for (operation* const op : read_ops) session_.unpin(*op);
  // A receive that continues over other lanes keeps its view.
  for (operation* const op : granted_ops) {
    if (op->at == operation::phase::done) session_.grants_ended(*op);
  }
}

bool core::violated(std::string why) {
  why_ = std::move(why);
  return false;
}

}  // namespace tandem::rails
