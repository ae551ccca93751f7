#include "rail_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "cli/json_text.hpp"
#include "rail_text.hpp"

namespace tandem::train {
namespace {

constexpr std::size_t most_named = 3;  // the table of the report lists all

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
  for (const rail_history& one : ends) {
    const auto [first, second] = std::minmax(one.end.rank, one.end.peer);
    const auto ranks = static_cast<int>(islands.size());
    if (first < 0 || second >= ranks) continue;
    const auto [at, fresh] = found.try_emplace({first, second, one.end.lane});
    rail_record& record = at->second;
    if (fresh) {
      record.first = first;
      record.second = second;
      record.lane = one.end.lane;
      record.first_island = islands[static_cast<std::size_t>(first)];
      record.second_island = islands[static_cast<std::size_t>(second)];
      record.first_nic = record.second_nic = "?";
      record.state = rail_state::up;
    }
    add_end(one, record);
  }
  std::map<std::pair<int, int>, double> of_pair;
  for (const auto& [key, one] : found) {
    of_pair[{one.first, one.second}] += static_cast<double>(one.bytes());
  }
  std::vector<rail_record> all;
  for (auto& [key, one] : found) {
    const double whole = of_pair[{one.first, one.second}];
    if (whole > 0) one.share = static_cast<double>(one.bytes()) / whole;
    all.push_back(std::move(one));
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

std::string rails_verdict(const std::vector<rail_record>& all) {
  const std::vector<rail_record> shown = rails_to_show(all);
  if (shown.empty()) return {};
  const bool several = std::any_of(shown.begin(), shown.end(), [&shown](const rail_record& r) {
    return r.first != shown.front().first || r.second != shown.front().second;
  });
  double bytes = 0;
  std::size_t lost = 0;
  std::string troubles;
  for (const rail_record& one : shown) {
    bytes += static_cast<double>(one.bytes());
    if (one.times_lost == 0 || ++lost > most_named) continue;
    troubles += fmt::format("{} {}", lost == 1 ? "; lost:" : ",", one.first_nic);
    if (several) troubles += fmt::format(" of ranks {} and {}", one.first, one.second);
    troubles += " " + count_text(one.times_lost);
  }
  if (lost == 0) troubles = "; none was lost";
  if (lost > most_named) troubles += fmt::format(", and {} more", lost - most_named);
  return fmt::format("{} rail{}{} carried {}{}", shown.size(), shown.size() == 1 ? "" : "s",
                     shown.front().crosses() ? " between islands" : "", bytes_text(bytes),
                     troubles);
}

std::string rails_json(const std::vector<rail_record>& all) {
  using cli::json_text;
  std::string list = "[";
  for (const rail_record& one : all) {
    list +=
        fmt::format(R"({}{{"ranks": [{}, {}], "islands": [{}, {}], "nics": [{}, {}], "lane": {}, )"
                    R"("state": {}, "epoch": {}, "times_lost": {}, "why_lost": {}, )"
                    R"("bytes_sent": {}, "bytes_received": {}, "share": {:.6f}}})",
                    list.size() > 1 ? ", " : "", one.first, one.second, json_text(one.first_island),
                    json_text(one.second_island), json_text(one.first_nic),
                    json_text(one.second_nic), one.lane, json_text(name(one.state)), one.epoch,
                    one.times_lost, json_text(one.why_lost), one.sent, one.received, one.share);
  }
  return list + "]";
}

}  // namespace tandem::train
