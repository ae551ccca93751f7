#include "rails/core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tandem/crc32c.hpp>

namespace tandem::rails {
namespace {

/// Fewer bytes may be reported late, so their timing does not show the lane's rate.
constexpr std::uint64_t least_sample_bytes = bytes_per_report;
/// The same count as `parcel::bytes` at the sender.
std::uint64_t on_wire_bytes(const protocol::frame& f) noexcept {
  return envelope_bytes + protocol::frame_bytes + f.payload_bytes;
}

}  // namespace

core::core(const protocol::limits& agreed, protocol::identity who,
           std::chrono::steady_clock::duration operation_timeout, std::size_t lanes,
           const patience& bounds, bool checksums)
    : session_(agreed, std::move(who), operation_timeout, protocol::chunk_order::any),
      departures_(session_, lanes, checksums),
      reception_(session_, agreed),
      bounds_(bounds),
      lanes_(lanes) {}

void core::fail(const error& reason, bool say_goodbye) {
  if (session_.failed()) return;
  if (say_goodbye && !session_.peer_said_goodbye()) {
    protocol::frame bye;
    bye.type = protocol::frame_type::goodbye;
    bye.flags = reason.code() == errc::channel_closed ? 0 : protocol::in_failure;
    departures_.say_last(bye);
  }
  session_.fail(reason);
  departures_.forget_chunks();
  reception_.forget();
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

bool core::may_come(std::uint16_t lane, std::uint32_t epoch) const noexcept {
  return ahead(epoch, next_epoch(lane)) >= 0;
}

void core::lane_up(std::uint16_t lane, std::uint32_t epoch, time_point now, bool stands_by,
                   bool guarded) {
  departures_.lane_guarded(lane, guarded);
  lane_record& l = lanes_[lane];
  l.stands_by = stands_by;
  l.at = state::up;
  l.closing = false;
  l.epoch = epoch;
  l.report_due = true;
  l.bytes_per_s = 0;
  l.passed_over_at.reset();
  l.measured_bytes = departures_.arrived_bytes(lane);
  l.measured_at = l.wrote_at = now;
  heard(lane, now);
}

void core::lane_lost(std::uint16_t lane, bool is_quiet) {
  lane_record& l = lanes_[lane];
  if (!is_live(lane)) return;
  l.at = state::lost;
  l.closing = false;
  if (l.landing != nullptr) reception_.drop(*l.landing);
  l.landing = nullptr;
  departures_.lane_lost(lane, l.epoch);
  // If the peer closed first, its fence was received already.
  l.fence_open = !l.peer_closed_epoch || ahead(*l.peer_closed_epoch, l.epoch) < 0;
  l.closed_epoch = l.epoch;
  l.fence_due = true;
  ++l.draining;
  if (is_quiet) lane_quiet(lane, l.epoch);
}

bool core::next(std::uint16_t lane, piece& out, time_point now) {
  lane_record& l = lanes_[lane];
  if (!is_live(lane) || l.closing) return false;
  out.payload = {};
  out.of = nullptr;
  out.placed.reset();
  if (!next_fence(out) && !next_report(lane, out)) {
    if (!may_pull(lane, now)) {
      pass_over(l, now);
      return false;
    }
    session_.cut_for(lanes_up());
    if (departures_.underway_bytes(lane) < least_sample_bytes) {
      l.measured_at = now;
      l.measured_bytes = departures_.arrived_bytes(lane);
    }
    parcel* const p = departures_.next(lane, l.epoch);
    if (p == nullptr || p->is_unread) return false;
    if (p->out.header.type == protocol::frame_type::data) l.passed_over_at.reset();
    envelope e;
    e.kind = envelope_kind::parcel;
    e.lane = lane;
    e.epoch = l.epoch;
    e.number = p->number;
    e.order = p->order;
    write_envelope(e, out);
    out.head_bytes += protocol::frame_bytes;
    out.payload = p->out.payload;
    out.of = p;
    place(lane, out);
    if (!out.placed && !carry(out)) return false;
    write_frame(out);
  }
  l.wrote_at = now;
  return true;
}

void core::written(const piece& p) noexcept {
  if (p.of != nullptr) departures_.written(*p.of);
}

void core::write_envelope(envelope e, piece& out) const {
  e.arrived = reception_.arrived().next();
  if (e.body_bytes > 0) e.order = crc32c(out.head.data() + envelope_bytes, e.body_bytes);
  encode(e, std::span(out.head).first<envelope_bytes>());
  out.head_bytes = envelope_bytes + e.body_bytes;
}

bool core::next_fence(piece& out) {
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    lane_record& l = lanes_[i];
    if (!l.fence_due || l.draining > 0) continue;
    l.fence_due = false;
    envelope e;
    e.kind = envelope_kind::fenced;
    e.lane = i;
    e.epoch = *l.closed_epoch;
    e.number = l.fence_open ? wants_answer : 0;
    const auto body = std::span(out.head).subspan<envelope_bytes, most_body_bytes>();
    e.body_bytes = static_cast<std::uint32_t>(reception_.arrived().write(body));
    write_envelope(e, out);
    return true;
  }
  return false;
}

bool core::next_report(std::uint16_t lane, piece& out) {
  lane_record& l = lanes_[lane];
  if (!l.report_due && !reception_.owes_report()) return false;
  l.report_due = false;
  reception_.reported();
  envelope e;
  e.kind = envelope_kind::report;
  e.lane = lane;
  e.epoch = l.epoch;
  const auto body = std::span(out.head).subspan<envelope_bytes, most_body_bytes>();
  e.body_bytes = static_cast<std::uint32_t>(reception_.arrived().write(body));
  write_envelope(e, out);
  return true;
}

/// A lane takes only its share: nothing while it is suspect, and no chunk that the other lanes
/// would finish earlier. The lane that would finish the next chunk first always takes it.
bool core::may_pull(std::uint16_t lane, time_point now) {
  if (lanes_[lane].stands_by && any_up_but_standing_by()) return false;
  const auto chunk = static_cast<double>(session_.upcoming_chunk_bytes());
  const auto left = static_cast<double>(session_.accepted_bytes_left());
  double others_bytes_per_s = 0, others_bytes = left;
  double first_s = std::numeric_limits<double>::max();
  const double unknown_bytes_per_s = mean_rate();
  bool others_up = false;
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    if (i == lane || lanes_[i].at != state::up) continue;
    const bool rests = lanes_[i].stands_by && !lanes_[lane].stands_by;
    if (rests && lanes_[lane].at == state::up) continue;
    others_up = true;
    const double bytes_per_s = rate(i, now, unknown_bytes_per_s);
    const auto underway = static_cast<double>(departures_.underway_bytes(i));
    others_bytes_per_s += bytes_per_s;
    others_bytes += underway;
    first_s = std::min(first_s, (underway + chunk) / bytes_per_s);
  }
  if (!others_up) return true;
  if (lanes_[lane].at == state::suspect) return false;
  if (left == 0) return true;
  const double mine = rate(lane, now, unknown_bytes_per_s);
  const double my_s = (static_cast<double>(departures_.underway_bytes(lane)) + chunk) / mine;
  return my_s <= std::max(first_s, others_bytes / others_bytes_per_s);
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

bool core::any_up_but_standing_by() const noexcept {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const lane_record& l) { return l.at == state::up && !l.stands_by; });
}

/// The number of lanes that carry chunks now.
std::size_t core::lanes_up() const noexcept {
  const bool others_rest = any_up_but_standing_by();
  const auto carries = [others_rest](const lane_record& l) {
    return l.at == state::up && !(l.stands_by && others_rest);
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
  const auto underway = static_cast<double>(departures_.underway_bytes(lane));
  const double waited_s = std::chrono::duration<double>(now - l.measured_at).count();
  const bool is_late = underway > 0 && waited_s * bytes_per_s > underway;
  return is_late ? underway / waited_s : bytes_per_s;
}

void core::measure(time_point now) {
  constexpr double least_s = 0.01;  // shorter samples measure bursts
  constexpr double newest = 0.3;    // weight of the last sample
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    lane_record& l = lanes_[i];
    const std::uint64_t bytes = departures_.arrived_bytes(i) - l.measured_bytes;
    const double elapsed_s = std::chrono::duration<double>(now - l.measured_at).count();
    if (bytes < least_sample_bytes || elapsed_s < least_s) continue;
    const double sample = static_cast<double>(bytes) / elapsed_s;
    l.bytes_per_s = l.bytes_per_s > 0 ? l.bytes_per_s + newest * (sample - l.bytes_per_s) : sample;
    l.measured_at = now;
    l.measured_bytes += bytes;
  }
}

bool core::take(std::uint16_t lane, const envelope& e, std::span<const std::byte> body,
                time_point now) {
  heard(lane, now);
  switch (e.kind) {
    case envelope_kind::report:
      if (!departures_.on_report(e.arrived, body)) return violated("a report of unsent packets");
      break;
    case envelope_kind::fenced:
      if (!on_fenced(e, body)) return false;
      break;
    case envelope_kind::parcel:
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
    departures_.lane_lost(e.lane, e.epoch);
  }
  if (!departures_.on_report(e.arrived, body)) return violated("a fence of unsent packets");
  departures_.lane_fenced(e.lane, e.epoch);
  if (!l.peer_closed_epoch || ahead(e.epoch, *l.peer_closed_epoch) > 0) {
    l.peer_closed_epoch = e.epoch;
  }
  if (closes_live) {
    l.closing = true;  // our own fence follows
    return true;
  }
  if (!l.closed_epoch || ahead(e.epoch, *l.closed_epoch) > 0) l.closed_epoch = e.epoch;
  if (ahead(e.epoch, *l.closed_epoch) >= 0) l.fence_open = false;
  if ((e.number & wants_answer) != 0) l.fence_due = true;
  return true;
}

reception::outcome core::begin(std::uint16_t lane, const envelope& e, const protocol::frame& f,
                               inbound*& into) {
  lane_record& l = lanes_[lane];
  into = nullptr;
  if (e.lane != lane || e.epoch != l.epoch) {
    violated(fmt::format("a packet of lane {} epoch {} on lane {}", e.lane, e.epoch, lane));
    return reception::outcome::violated;
  }
  if (!departures_.on_report(e.arrived, {})) {
    violated("a packet that reports unsent packets");
    return reception::outcome::violated;
  }
  const reception::outcome result = reception_.begin(e, f, into);
  l.landing = into;
  if (result == reception::outcome::taken) l.received_bytes += on_wire_bytes(f);
  return result;
}

reception::ending core::end(std::uint16_t lane) {
  lane_record& l = lanes_[lane];
  const std::uint64_t bytes = on_wire_bytes(l.landing->frame);
  reception_.shared_by_lanes(lanes_up() > 1);
  const reception::ending result = reception_.end(*l.landing);
  // A damaged packet is dropped with its lane.
  if (result != reception::ending::damaged) l.landing = nullptr;
  if (result == reception::ending::good) l.received_bytes += bytes;
  return result;
}

void core::heard(std::uint16_t lane, time_point now) noexcept {
  lane_record& l = lanes_[lane];
  l.heard_at = heard_at_ = now;
  if (l.at == state::suspect) l.at = state::up;
}

void core::tick(time_point now) {
  const auto beat = bounds_.heartbeat();
  // Time in which this process did not run does not count as silence of the peer.
  const auto slept = ticked_ ? now - *ticked_ - beat : time_point::duration::zero();
  if (slept > 2 * beat) {
    heard_at_ += slept;
    for (lane_record& l : lanes_) l.heard_at += slept;
  }
  ticked_ = now;
  reception_.hurry();
  for (std::uint16_t i = 0; i < lanes_.size(); ++i) {
    lane_record& l = lanes_[i];
    if (l.fence_open) l.fence_due = true;
    if (!is_live(i)) continue;
    if (now - l.wrote_at >= beat) l.report_due = true;
    const auto silent = now - l.heard_at;
    if (silent >= bounds_.suspect()) l.at = state::suspect;
    // A peer that never sends its fence must not keep a view from its owner.
    if (touched_.waits_too_long(i, now, bounds_.peer)) l.closing = true;
    if (silent >= bounds_.lost && now - heard_at_ < bounds_.suspect()) l.closing = true;
  }
  const bool was_heard = heard_at_ != time_point{};
  if (was_heard && now - heard_at_ >= bounds_.peer) peer_silent_ = true;
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
