#include "rail_log.hpp"

#include <algorithm>
#include <utility>

namespace tandem::train {
namespace {

constexpr double min_rate_interval_s = 0.5;  // shorter intervals show individual messages

rail_state state_of(std::string_view text) noexcept {
  for (const rail_state one : {rail_state::up, rail_state::suspect, rail_state::lost}) {
    if (text == name(one)) return one;
  }
  return rail_state::absent;
}

template <std::size_t size>
void copy(std::string_view text, std::array<char, size>& into) noexcept {
  into = {};
  std::copy_n(text.begin(), std::min(text.size(), size - 1), into.begin());
}

}  // namespace

std::string_view name(rail_state of) noexcept {
  switch (of) {
    case rail_state::up:
      return "up";
    case rail_state::suspect:
      return "suspect";
    case rail_state::absent:
      return "absent";
    case rail_state::lost:
      return "lost";
  }
  return "unknown";
}

std::string nic_of(std::string_view rail_name) {
  constexpr std::string_view over = " over ";
  const std::size_t end = rail_name.find(' ');
  std::string nic(rail_name.substr(0, end));
  if (end != std::string_view::npos && rail_name.substr(end).starts_with(over)) {
    const std::string_view device = rail_name.substr(end + over.size());
    nic += '/';
    nic += device.substr(0, device.find(' '));
  }
  for (char& c : nic) {
    if (static_cast<unsigned char>(c) < 0x21 || c == 0x7f) c = '?';
  }
  return nic.empty() ? "?" : nic;
}

rail_log::entry& rail_log::find(double at_s, int peer, std::size_t lane) {
  const auto number = static_cast<std::int32_t>(lane);
  for (entry& one : entries_) {
    if (one.history.end.peer == peer && one.history.end.lane == number) return one;
  }
  entry& fresh = entries_.emplace_back();
  fresh.history.end.rank = rank_;
  fresh.history.end.peer = peer;
  fresh.history.end.lane = number;
  // The rail appeared between two samples: its bytes so far are counted from the earlier one.
  if (rank_ < peer && previous_sample_s_ < at_s) {
    fresh.history.points.push_back({.at_s = previous_sample_s_});
  }
  return fresh;
}

void rail_log::record(double at_s, int peer, const std::vector<rail_stats>& now) {
  if (at_s > sample_s_) previous_sample_s_ = std::exchange(sample_s_, at_s);
  for (std::size_t lane = 0; lane < now.size(); ++lane) {
    const rail_stats& from = now[lane];
    entry& one = find(at_s, peer, lane);
    rail_end& end = one.history.end;
    const rail_state state = state_of(from.state);
    // The time before a rail connects is no fault.
    if (end.state == rail_state::absent) one.worst = rail_state::up;
    one.worst = std::max(one.worst, from.times_lost > end.times_lost ? rail_state::lost : state);
    end.state = state;
    end.epoch = from.epoch;
    end.times_lost = from.times_lost;
    end.sent = from.bytes_arrived;
    end.received = from.bytes_received;
    copy(nic_of(from.name), end.nic);
    copy(from.why_lost, end.why_lost);
    const std::vector<rail_point>& points = one.history.points;
    if (points.empty() || at_s - points.back().at_s >= point_spacing_s_) keep(at_s, one);
  }
}

void rail_log::keep(double at_s, entry& of) {
  const rail_end& end = of.history.end;
  if (rank_ > end.peer) return;
  std::vector<rail_point>& points = of.history.points;
  points.push_back({at_s, end.sent, end.received, of.worst});
  of.worst = end.state;
  if (points.size() >= max_points) thin_out();
}

/// Drops every other point; the next point takes over its worst state.
void rail_log::thin_out() {
  point_spacing_s_ *= 2;
  for (entry& one : entries_) {
    std::vector<rail_point>& points = one.history.points;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < points.size(); i += 2) {
      rail_point p = points[i];
      if (i > 0) p.worst = std::max(p.worst, points[i - 1].worst);
      points[kept++] = p;
    }
    // The last point stays: the byte count ends there.
    if (points.size() % 2 == 0 && !points.empty()) points[kept++] = points.back();
    points.resize(kept);
  }
}

void rail_log::finish(double at_s) {
  for (entry& one : entries_) {
    if (one.history.points.empty() || one.history.points.back().at_s < at_s) keep(at_s, one);
  }
}

std::vector<nic_status> rail_log::live(double at_s) {
  const bool rates_are_old = at_s - rate_start_s_ >= min_rate_interval_s;
  std::vector<nic_status> nics;
  for (entry& one : entries_) {
    const rail_end& end = one.history.end;
    if (rates_are_old) {
      const double elapsed_s = at_s - std::max(rate_start_s_, 0.0);
      const auto bytes = static_cast<double>(end.bytes() - one.rate_start_bytes);
      one.bytes_per_s = elapsed_s > 0 ? bytes / elapsed_s : 0;
      one.rate_start_bytes = end.bytes();
    }
    const std::string_view nic = end.nic.data();
    auto of = std::find_if(nics.begin(), nics.end(), [nic](const auto& n) { return n.nic == nic; });
    if (of == nics.end()) {
      nics.push_back({.nic = std::string(nic)});
      of = nics.end() - 1;
    }
    ++of->lanes;
    if (end.state == rail_state::up) ++of->up;
    of->worst = std::max(of->worst, end.state);
    of->bytes_per_s += one.bytes_per_s;
  }
  if (rates_are_old) rate_start_s_ = at_s;
  return nics;
}

std::vector<rail_history> rail_log::rails() const {
  std::vector<rail_history> all;
  for (const entry& one : entries_) {
    all.push_back(one.history);
    all.back().end.points = one.history.points.size();
  }
  return all;
}

}  // namespace tandem::train
