#include "rail_tracks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::train {
namespace {

constexpr double min_part_s = 0.1;  // shorter ones show individual messages
constexpr double max_parts = 150;   // each six units wide in the drawing
constexpr double min_windows = 5;   // a short run still has five windows

bool is_same_track(const rail_record& a, const rail_record& b) {
  return a.first_nic == b.first_nic && a.second_nic == b.second_nic &&
         a.first_island == b.first_island && a.second_island == b.second_island;
}

bool is_same_pair_of_islands(const rail_record& a, const rail_record& b) {
  return a.first_island == b.first_island && a.second_island == b.second_island;
}

std::string name_of(const rail_record& rail, bool with_islands) {
  if (with_islands) {
    return fmt::format("{} {} - {} {}", rail.first_island, rail.first_nic, rail.second_island,
                       rail.second_nic);
  }
  if (rail.first_nic == rail.second_nic) return rail.first_nic;
  return fmt::format("{} - {}", rail.first_nic, rail.second_nic);
}

/// Bytes until `at_s`, interpolated linearly. @pre `points` is not empty and sorted by time.
double bytes_until(const std::vector<rail_point>& points, double at_s) {
  const auto after = std::find_if(points.begin(), points.end(),
                                  [at_s](const rail_point& p) { return p.at_s >= at_s; });
  if (after == points.end()) return static_cast<double>(points.back().bytes());
  const auto high = static_cast<double>(after->bytes());
  if (after == points.begin() || after->at_s == at_s) return high;
  const rail_point& before = *(after - 1);
  const auto low = static_cast<double>(before.bytes());
  return low + (high - low) * (at_s - before.at_s) / (after->at_s - before.at_s);
}

/// The worst state reported for any time between `from_s` and `to_s`.
rail_state worst_between(const std::vector<rail_point>& points, double from_s, double to_s) {
  const double tolerance_s = (to_s - from_s) * 1e-6;  // intervals that merely touch do not overlap
  rail_state worst = rail_state::up;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].at_s > from_s + tolerance_s && points[i - 1].at_s < to_s - tolerance_s) {
      worst = std::max(worst, points[i].worst);
    }
  }
  return worst;
}

void add(const rail_record& rail, double part_s, rail_track& into) {
  if (rail.points.size() < 2) return;
  for (std::size_t i = 0; i < into.parts.size(); ++i) {
    const double from_s = static_cast<double>(i) * part_s, to_s = from_s + part_s;
    if (to_s <= rail.points.front().at_s) continue;
    rail_track::part& part = into.parts[i];
    const double bytes = bytes_until(rail.points, to_s) - bytes_until(rail.points, from_s);
    const rail_state worst = worst_between(rail.points, from_s, to_s);
    part.bytes_per_s += bytes / part_s;
    part.worst = part.rails == 0 ? worst : std::max(part.worst, worst);
    ++part.rails;
    if (worst == rail_state::lost) ++part.lost;
  }
}

bool is_down(const rail_track::part& p) {
  return p.rails == 0 || (p.lost == p.rails && p.bytes_per_s <= 0);
}

void smooth(rail_track& track, std::size_t each_side) {
  const std::vector<rail_track::part> raw = track.parts;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (is_down(raw[i])) continue;
    double sum = 0, count = 0;
    const std::size_t end = std::min(raw.size(), i + each_side + 1);
    for (std::size_t j = i - std::min(i, each_side); j < end; ++j) {
      if (is_down(raw[j])) continue;
      sum += raw[j].bytes_per_s;
      ++count;
    }
    track.parts[i].bytes_per_s = sum / count;
  }
}

}  // namespace

rail_tracks make_tracks(const std::vector<rail_record>& rails, double window_s) {
  rail_tracks made;
  double span_s = 0;
  for (const rail_record& rail : rails) {
    if (!rail.points.empty()) span_s = std::max(span_s, rail.points.back().at_s);
  }
  const auto parts =
      static_cast<std::size_t>(std::clamp(std::floor(span_s / min_part_s), 1.0, max_parts));
  made.part_s = span_s / static_cast<double>(parts);
  bool with_islands = false;
  std::vector<const rail_record*> named_after;
  for (const rail_record& rail : rails) {
    with_islands = with_islands || !is_same_pair_of_islands(rail, rails.front());
    const auto known =
        std::find_if(named_after.begin(), named_after.end(),
                     [&rail](const rail_record* one) { return is_same_track(*one, rail); });
    made.track_of_rail.push_back(static_cast<std::size_t>(known - named_after.begin()));
    if (known == named_after.end()) named_after.push_back(&rail);
  }
  made.tracks.resize(named_after.size());
  for (std::size_t i = 0; i < made.tracks.size(); ++i) {
    made.tracks[i].name = name_of(*named_after[i], with_islands);
    made.tracks[i].parts.resize(parts);
  }
  for (std::size_t i = 0; i < rails.size(); ++i) {
    rail_track& track = made.tracks[made.track_of_rail[i]];
    track.bytes += static_cast<double>(rails[i].bytes());
    if (span_s > 0) add(rails[i], made.part_s, track);
  }
  const double max_window_s = span_s / min_windows;
  const double sides = made.part_s > 0 ? std::min(window_s, max_window_s) / made.part_s / 2 : 0;
  const auto each_side = static_cast<std::size_t>(std::max(0.0, std::round(sides)));
  for (rail_track& track : made.tracks) smooth(track, each_side);
  return made;
}

}  // namespace tandem::train
