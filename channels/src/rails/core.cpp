#include "rails/core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tandem/detail/crc32c.hpp>

namespace tandem::rails {
namespace {

/// Fewer bytes may be reported late, so their timing does not show the lane's rate.
constexpr std::uint64_t min_sample_bytes = bytes_per_report;
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
      lanes_(lanes) {}

void core::fail(const error& reason, bool send_close) {
  if (session_.failed()) return;
  if (send_close && !session_.received_close()) {
    protocol::frame close_frame;
    close_frame.type = protocol::frame_type::close;
    close_frame.flags = reason.code() == errc::channel_closed ? 0 : protocol::after_error;
    send_window_.send_last(close_frame);
  }
  session_.fail(reason);
  send_window_.drop_chunks();
  reassembly_.forget();
}

bool core::is_live(std::uint16_t lane) const noexcept {
  return lanes_[lane].at == state::up || lanes_[lane].at == state::suspect;
}

bool core::any_live() const noexcept {
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (is_live(i)) return true;
  }
  return false;
}

std::uint32_t core::next_epoch(std::uint16_t lane) const noexcept {
  const lane_record& l = lanes_[lane];
  std::uint32_t last = l.epoch;
  for (const auto& closed : {l.closed_epoch, l.peer_closed_epoch}) {
    if (closed && ahead(*closed, last) > 0) last = *closed;
  }
  return last + 1;
}

bool core::accepts_epoch(std::uint16_t lane, std::uint32_t epoch) const noexcept {
  return ahead(epoch, next_epoch(lane)) >= 0;
}

void core::lane_up(std::uint16_t lane, std::uint32_t epoch, time_point now, bool is_standby,
                   bool has_integrity) {
  send_window_.lane_integrity(lane, has_integrity);
  lane_record& l = lanes_[lane];
  l.is_standby = is_standby;
  l.at = state::up;
  l.closing = false;
  l.epoch = epoch;
  l.report_due = true;
  l.bytes_per_s = 0;
  l.passed_over_at.reset();
  l.measured_bytes = send_window_.acknowledged_bytes(lane);
  l.measured_at = l.wrote_at = now;
  on_receive(lane, now);
}

void core::lane_lost(std::uint16_t lane, bool is_quiesced) {
  lane_record& l = lanes_[lane];
  if (!is_live(lane)) return;
  l.at = state::lost;
  l.closing = false;
  if (l.incoming != nullptr) reassembly_.drop(*l.incoming);
  l.incoming = nullptr;
  send_window_.lane_lost(lane, l.epoch);
  // If the peer closed first, its fence was received already.
  l.awaits_peer_fence = !l.peer_closed_epoch || ahead(*l.peer_closed_epoch, l.epoch) < 0;
  l.closed_epoch = l.epoch;
  l.fence_due = true;
  ++l.draining;
  if (is_quiesced) lane_quiesced(lane, l.epoch);
}

bool core::next(std::uint16_t lane, lane_write& out, time_point now) {
  lane_record& l = lanes_[lane];
  if (!is_live(lane) || l.closing) return false;
  out.payload = {};
  out.of = nullptr;
  out.placed.reset();
  if (!next_fence(out) && !next_report(lane, out)) {
    if (!may_take_chunk(lane, now)) {
      pass_over(l, now);
      return false;
    }
    session_.set_lane_count(lanes_up());
    if (send_window_.in_flight_bytes(lane) < min_sample_bytes) {
      l.measured_at = now;
      l.measured_bytes = send_window_.acknowledged_bytes(lane);
    }
    packet* const p = send_window_.next(lane, l.epoch);
    if (p == nullptr || p->is_unreadable) return false;
    if (p->out.header.type == protocol::frame_type::data) l.passed_over_at.reset();
    envelope e;
    e.kind = envelope_kind::packet;
    e.lane = lane;
    e.epoch = l.epoch;
    e.number = p->number;
    e.order = p->order;
    write_envelope(e, out);
    out.head_bytes += protocol::frame_bytes;
    out.payload = p->out.payload;
    out.of = p;
    place(lane, out);
    if (!out.placed && !prepare_payload(out)) return false;
    write_frame(out);
  }
  l.wrote_at = now;
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
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    lane_record& l = lanes_[i];
    if (!l.fence_due || l.draining > 0) continue;
    l.fence_due = false;
    envelope e;
    e.kind = envelope_kind::fenced;
    e.lane = i;
    e.epoch = *l.closed_epoch;
    e.number = l.awaits_peer_fence ? wants_reply : 0;
    const auto body = std::span(out.head).subspan<envelope_bytes, max_body_bytes>();
    e.body_bytes = static_cast<std::uint32_t>(reassembly_.arrived().write(body));
    write_envelope(e, out);
    return true;
  }
  return false;
}

bool core::next_report(std::uint16_t lane, lane_write& out) {
  lane_record& l = lanes_[lane];
  if (!l.report_due && !reassembly_.needs_report()) return false;
  l.report_due = false;
  reassembly_.reported();
  envelope e;
  e.kind = envelope_kind::report;
  e.lane = lane;
  e.epoch = l.epoch;
  const auto body = std::span(out.head).subspan<envelope_bytes, max_body_bytes>();
  e.body_bytes = static_cast<std::uint32_t>(reassembly_.arrived().write(body));
  write_envelope(e, out);
  return true;
}

/// A lane takes only its share: nothing while it is suspect, and no chunk that the other lanes
/// would finish earlier. The lane that would finish the next chunk first always takes it.
bool core::may_take_chunk(std::uint16_t lane, time_point now) {
  if (lanes_[lane].is_standby && any_active_up()) return false;
  const auto chunk = static_cast<double>(session_.upcoming_chunk_bytes());
  const auto left = static_cast<double>(session_.accepted_bytes_left());
  double others_bytes_per_s = 0, others_bytes = left;
  double first_s = std::numeric_limits<double>::max();
  const double unknown_bytes_per_s = mean_rate();
  bool others_up = false;
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (i == lane || lanes_[i].at != state::up) continue;
    const bool is_idle_standby = lanes_[i].is_standby && !lanes_[lane].is_standby;
    if (is_idle_standby && lanes_[lane].at == state::up) continue;
    others_up = true;
    const double bytes_per_s = rate(i, now, unknown_bytes_per_s);
    const auto in_flight = static_cast<double>(send_window_.in_flight_bytes(i));
    others_bytes_per_s += bytes_per_s;
    others_bytes += in_flight;
    first_s = std::min(first_s, (in_flight + chunk) / bytes_per_s);
  }
  if (!others_up) return true;
  if (lanes_[lane].at == state::suspect) return false;
  if (left == 0) return true;
  const double own_rate = rate(lane, now, unknown_bytes_per_s);
  const double own_s = (static_cast<double>(send_window_.in_flight_bytes(lane)) + chunk) / own_rate;
  return own_s <= std::max(first_s, others_bytes / others_bytes_per_s);
}

/// A lane that gets no chunks for long is not measured either, and may have recovered: its rate is
/// forgotten, so that the next chunk measures it again.
void core::pass_over(lane_record& l, time_point now) noexcept {
  constexpr std::chrono::seconds until_forgotten{5};
  if (!l.passed_over_at) l.passed_over_at = now;
  if (now - *l.passed_over_at < until_forgotten) return;
  l.bytes_per_s = 0;
  l.passed_over_at.reset();
}

bool core::any_active_up() const noexcept {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const lane_record& l) { return l.at == state::up && !l.is_standby; });
}

/// The number of lanes that carry chunks now.
std::size_t core::lanes_up() const noexcept {
  const bool standbys_idle = any_active_up();
  const auto carries = [standbys_idle](const lane_record& l) {
    return l.at == state::up && !(l.is_standby && standbys_idle);
  };
  return static_cast<std::size_t>(std::count_if(lanes_.begin(), lanes_.end(), carries));
}

/// The mean of the known rates, or an arbitrary value: messages too short to measure a rate are
/// divided evenly.
double core::mean_rate() const noexcept {
  double sum = 0;
  int known = 0;
  for (const lane_record& l : lanes_) {
    if (l.at != state::up || l.bytes_per_s <= 0) continue;
    sum += l.bytes_per_s;
    ++known;
  }
  return known > 0 ? sum / known : 1e9;
}

/// The measured rate, or less where the bytes in flight are overdue at that rate.
double core::rate(std::uint16_t lane, time_point now, double unknown_bytes_per_s) const {
  const lane_record& l = lanes_[lane];
  const double bytes_per_s = l.bytes_per_s > 0 ? l.bytes_per_s : unknown_bytes_per_s;
  const auto in_flight = static_cast<double>(send_window_.in_flight_bytes(lane));
  const double waited_s = std::chrono::duration<double>(now - l.measured_at).count();
  const bool is_late = in_flight > 0 && waited_s * bytes_per_s > in_flight;
  return is_late ? in_flight / waited_s : bytes_per_s;
}

void core::measure(time_point now) {
  constexpr double min_s = 0.01;  // shorter samples measure bursts
  constexpr double newest = 0.3;  // weight of the last sample
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    lane_record& l = lanes_[i];
    const std::uint64_t bytes = send_window_.acknowledged_bytes(i) - l.measured_bytes;
    const double elapsed_s = std::chrono::duration<double>(now - l.measured_at).count();
    if (bytes < min_sample_bytes || elapsed_s < min_s) continue;
    const double sample = static_cast<double>(bytes) / elapsed_s;
    l.bytes_per_s = l.bytes_per_s > 0 ? l.bytes_per_s + newest * (sample - l.bytes_per_s) : sample;
    l.measured_at = now;
    l.measured_bytes += bytes;
  }
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
  measure(now);
  return true;
}

/// The peer has closed this lane up to this epoch; its report of received packets is final.
bool core::on_fenced(const envelope& e, std::span<const std::byte> body) {
  if (e.lane >= lanes_.size()) return violated(fmt::format("a fence of unknown lane {}", e.lane));
  lane_record& l = lanes_[e.lane];
  const bool closes_live = is_live(e.lane) && ahead(e.epoch, l.epoch) >= 0;
  if (closes_live) {
    if (e.epoch != l.epoch) return violated("a fence of an epoch never used");
    send_window_.lane_lost(e.lane, e.epoch);
  }
  if (!send_window_.on_report(e.arrived, body)) return violated("a fence of unsent packets");
  send_window_.lane_fenced(e.lane, e.epoch);
  if (!l.peer_closed_epoch || ahead(e.epoch, *l.peer_closed_epoch) > 0) {
    l.peer_closed_epoch = e.epoch;
  }
  if (closes_live) {
    l.closing = true;  // our own fence follows
    return true;
  }
  if (!l.closed_epoch || ahead(e.epoch, *l.closed_epoch) > 0) l.closed_epoch = e.epoch;
  if (ahead(e.epoch, *l.closed_epoch) >= 0) l.awaits_peer_fence = false;
  if ((e.number & wants_reply) != 0) l.fence_due = true;
  return true;
}

reassembly::outcome core::begin(std::uint16_t lane, const envelope& e, const protocol::frame& f,
                                inbound*& into) {
  lane_record& l = lanes_[lane];
  into = nullptr;
  if (e.lane != lane || e.epoch != l.epoch) {
    violated(fmt::format("a packet of lane {} epoch {} on lane {}", e.lane, e.epoch, lane));
    return reassembly::outcome::violated;
  }
  if (!send_window_.on_report(e.arrived, {})) {
    violated("a packet that reports unsent packets");
    return reassembly::outcome::violated;
  }
  const reassembly::outcome result = reassembly_.begin(e, f, into);
  l.incoming = into;
  if (result == reassembly::outcome::taken) l.received_bytes += on_wire_bytes(f);
  return result;
}

reassembly::ending core::end(std::uint16_t lane) {
  lane_record& l = lanes_[lane];
  const std::uint64_t bytes = on_wire_bytes(l.incoming->frame);
  reassembly_.shared_by_lanes(lanes_up() > 1);
  const reassembly::ending result = reassembly_.end(*l.incoming);
  // A damaged packet is dropped with its lane.
  if (result != reassembly::ending::damaged) l.incoming = nullptr;
  if (result == reassembly::ending::good) l.received_bytes += bytes;
  return result;
}

void core::on_receive(std::uint16_t lane, time_point now) noexcept {
  lane_record& l = lanes_[lane];
  l.received_at = received_at_ = now;
  if (l.at == state::suspect) l.at = state::up;
}

void core::tick(time_point now) {
  const auto beat = bounds_.heartbeat();
  // Time in which this process did not run does not count as silence of the peer.
  const auto stalled = ticked_ ? now - *ticked_ - beat : time_point::duration::zero();
  if (stalled > 2 * beat) {
    received_at_ += stalled;
    for (lane_record& l : lanes_) l.received_at += stalled;
  }
  ticked_ = now;
  reassembly_.request_report();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    lane_record& l = lanes_[i];
    if (l.awaits_peer_fence) l.fence_due = true;
    if (!is_live(i)) continue;
    if (now - l.wrote_at >= beat) l.report_due = true;
    const auto silent = now - l.received_at;
    if (silent >= bounds_.suspect()) l.at = state::suspect;
    // A peer that never sends its fence must not keep a view from its owner.
    if (dma_tracker_.has_overdue_grant(i, now, bounds_.peer)) l.closing = true;
    if (silent >= bounds_.lost && now - received_at_ < bounds_.suspect()) l.closing = true;
  }
  const bool was_received = received_at_ != time_point{};
  if (was_received && now - received_at_ >= bounds_.peer) peer_silent_ = true;
}

std::string_view name(core::state of) noexcept {
  switch (of) {
    case core::state::up:
      return "up";
    case core::state::suspect:
      return "suspect";
    case core::state::lost:
      return "lost";
    default:
      return "absent";
  }
}

bool core::violated(std::string why) {
  why_ = std::move(why);
  return false;
}

}  // namespace tandem::rails
