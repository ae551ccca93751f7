#include "rail_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "cli/text.hpp"
#include "rail_log.hpp"

namespace tandem::train {
namespace {

constexpr std::size_t max_named = 3;  // the table of the report lists all

template <std::size_t size>
std::string text_of(const std::array<char, size>& from) {
  return {from.data(), strnlen(from.data(), size)};
}

/// Merges the state that both ends report; points and byte counts come from the lower rank.
void add_end(const rail_history& history, rail_record& into) {
  const rail_end& end = history.end;
  const bool is_first = end.rank < end.peer;
  (is_first ? into.first_nic : into.second_nic) = text_of(end.nic);
  into.state = std::max(into.state, end.state);
  into.epoch = std::max(into.epoch, end.epoch);
  into.times_lost = std::max(into.times_lost, end.times_lost);
  if (is_first) {
    into.sent = end.sent;
    into.received = end.received;
    into.points = history.points;
  }
  const std::string why = text_of(end.why_lost);
  if (why.empty()) return;
  // Ends are merged in rank order, so the lower rank's reason is stored first.
  if (into.why_lost.empty()) {
    into.why_lost = why;
  } else if (into.why_lost != why) {
    into.why_lost =
        fmt::format("rank {}: {}; rank {}: {}", into.first, into.why_lost, into.second, why);
  }
}

std::string count_text(std::uint32_t times) {
  return times == 1 ? "once" : times == 2 ? "twice" : fmt::format("{} times", times);
}

}  // namespace

std::vector<rail_record> join_rails(std::span<const rail_history> ends,
                                    const std::vector<std::string>& islands) {
  std::map<std::tuple<int, int, int>, rail_record> found;
  for (const rail_history& rail : ends) {
    const auto [first, second] = std::minmax(rail.end.rank, rail.end.peer);
    const auto ranks = static_cast<int>(islands.size());
    if (first < 0 || second >= ranks) continue;
    const auto [at, fresh] = found.try_emplace({first, second, rail.end.lane});
    rail_record& record = at->second;
    if (fresh) {
      record.first = first;
      record.second = second;
      record.lane = rail.end.lane;
      record.first_island = islands[static_cast<std::size_t>(first)];
      record.second_island = islands[static_cast<std::size_t>(second)];
      record.first_nic = record.second_nic = "?";
      record.state = rail_state::up;
    }
    add_end(rail, record);
  }
  std::map<std::pair<int, int>, double> of_pair;
  for (const auto& [key, rail] : found) {
    of_pair[{rail.first, rail.second}] += static_cast<double>(rail.bytes());
  }
  std::vector<rail_record> all;
  for (auto& [key, rail] : found) {
    const double total = of_pair[{rail.first, rail.second}];
    if (total > 0) rail.share = static_cast<double>(rail.bytes()) / total;
    all.push_back(std::move(rail));
  }
  std::stable_partition(all.begin(), all.end(), [](const rail_record& r) { return r.crosses(); });
  return all;
}

std::vector<rail_record> rails_to_show(const std::vector<rail_record>& all) {
  std::vector<rail_record> crossing;
  std::copy_if(all.begin(), all.end(), std::back_inserter(crossing),
               [](const rail_record& r) { return r.crosses(); });
  return crossing.empty() ? all : crossing;
}

std::string rails_summary(const std::vector<rail_record>& all) {
  const std::vector<rail_record> shown = rails_to_show(all);
  if (shown.empty()) return {};
  const bool several = std::any_of(shown.begin(), shown.end(), [&shown](const rail_record& r) {
    return r.first != shown.front().first || r.second != shown.front().second;
  });
  double bytes = 0;
  std::size_t lost = 0;
  std::string losses;
  for (const rail_record& rail : shown) {
    bytes += static_cast<double>(rail.bytes());
    if (rail.times_lost == 0 || ++lost > max_named) continue;
    losses += fmt::format("{} {}", lost == 1 ? "; lost:" : ",", rail.first_nic);
    if (several) losses += fmt::format(" of ranks {} and {}", rail.first, rail.second);
    losses += " " + count_text(rail.times_lost);
  }
  if (lost == 0) losses = "; none was lost";
  if (lost > max_named) losses += fmt::format(", and {} more", lost - max_named);
  return fmt::format("{} rail{}{} carried {}{}", shown.size(), shown.size() == 1 ? "" : "s",
                     shown.front().crosses() ? " between islands" : "", bytes_text(bytes), losses);
}

std::string rails_json(const std::vector<rail_record>& all) {
  using cli::json_text;
  std::string list = "[";
  for (const rail_record& rail : all) {
    list += fmt::format(
        R"({}{{"ranks": [{}, {}], "islands": [{}, {}], "nics": [{}, {}], "lane": {}, )"
        R"("state": {}, "epoch": {}, "times_lost": {}, "why_lost": {}, )"
        R"("bytes_sent": {}, "bytes_received": {}, "share": {:.6f}}})",
        list.size() > 1 ? ", " : "", rail.first, rail.second, json_text(rail.first_island),
        json_text(rail.second_island), json_text(rail.first_nic), json_text(rail.second_nic),
        rail.lane, json_text(name(rail.state)), rail.epoch, rail.times_lost,
        json_text(rail.why_lost), rail.sent, rail.received, rail.share);
  }
  return list + "]";
}

}  // namespace tandem::train
