#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <tandem/parallel.hpp>
#include <utility>

#include "islands/division.hpp"

namespace tandem {
namespace {

constexpr std::size_t max_pairs = 2;  // listed for each transport

std::size_t index_after(std::size_t at, std::size_t ranks) noexcept {
  return at + 1 < ranks ? at + 1 : 0;
}

detail::island_fact fact_of(const rank_facts& reported) {
  detail::island_fact fact;
  fact.kind = static_cast<std::int32_t>(reported.kind);
  fact.colour = reported.colour;
  fact.library = reported.library;
  std::memcpy(fact.uuid.data(), reported.device.data(),
              std::min(reported.device.size(), fact.uuid.size()));
  return fact;
}

/// "cuda 0-1": the name of an island.
std::string island_text(std::span<const rank_facts> reported, const std::vector<int>& island) {
  return fmt::format("{} {}", name(reported[static_cast<std::size_t>(island.front())].kind),
                     ranks_text(island));
}

std::string islands_text(std::span<const rank_facts> reported, const group_choice& of) {
  std::vector<std::string> each;
  for (const std::vector<int>& island : of.islands) each.push_back(island_text(reported, island));
  return fmt::format("{} islands: {}", each.size(), fmt::join(each, ", "));
}

/// "NCCL 2.28.3 and RCCL 2.22.3": the libraries of the islands that have several ranks.
std::string libraries_text(std::span<const rank_facts> reported, const group_choice& of) {
  std::vector<std::string> each;
  for (const std::vector<int>& island : of.islands) {
    const rank_facts& first = reported[static_cast<std::size_t>(island.front())];
    std::string text = detail::library_text(static_cast<std::int32_t>(first.kind), first.library);
    const bool is_new = std::ranges::find(each, text) == each.end();
    if (island.size() > 1 && is_new) each.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(each, " and "));
}

/// The transports that the group uses: "peer copies", or, if there are several, "shm (0 to 1), tcp
/// (1 to 2 and 3 more)".
std::string transports_text(const group_choice& of, const transport_between& transport) {
  struct used {
    std::string transport;
    std::vector<std::string> pairs;
  };
  std::vector<used> all;
  for (std::size_t at = 0; at < of.ranks.size(); ++at) {
    if (!of.uses_path(at)) continue;
    const int from = of.ranks[at], to = of.ranks[index_after(at, of.ranks.size())];
    std::string text = transport(from, to);
    auto found = std::ranges::find(all, text, &used::transport);
    if (found == all.end()) found = all.insert(all.end(), used{std::move(text), {}});
    found->pairs.push_back(fmt::format("{} to {}", from, to));
  }
  if (all.size() == 1) return all[0].transport;
  std::string text;
  for (used& each : all) {
    const std::size_t more = each.pairs.size() - std::min(each.pairs.size(), max_pairs);
    each.pairs.resize(each.pairs.size() - more);
    text +=
        fmt::format("{}{} ({}{})", text.empty() ? "" : ", ", each.transport,
                    fmt::join(each.pairs, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
  }
  return text;
}

/// Why the group uses no library; empty if it does.
std::string channels_reason(std::span<const rank_facts> reported, const group_choice& of,
                            const detail::division& d) {
  const auto is_host = [reported](int rank) {
    return reported[static_cast<std::size_t>(rank)].kind == memory_kind::host;
  };
  if (std::ranges::all_of(of.ranks, is_host)) return "host memory";
  if (const auto first = std::ranges::find_if(of.ranks, is_host); first != of.ranks.end()) {
    return fmt::format("rank {} works on host memory", *first);
  }
  for (const std::string& why : d.fallback_reason) {
    if (!why.empty()) return why;
  }
  if (of.islands.size() == of.ranks.size()) return islands_text(reported, of);
  return {};
}

group_choice choose(std::string name, std::size_t number, const std::vector<int>& ranks,
                    std::span<const rank_facts> reported, const transport_between& transport) {
  group_choice result;
  result.name = std::move(name);
  result.number = number;
  result.ranks = ranks;
  std::vector<detail::island_fact> facts;
  for (const int rank : ranks) facts.push_back(fact_of(reported[static_cast<std::size_t>(rank)]));
  const detail::division d(facts, ranks);
  for (const std::vector<int>& members : d.members) {
    std::vector<int>& island = result.islands.emplace_back();
    for (const int member : members) island.push_back(ranks[static_cast<std::size_t>(member)]);
  }
  const memory_kind kind = reported[static_cast<std::size_t>(ranks.front())].kind;
  if (ranks.size() == 1) {
    result.by = "nothing";
    result.why = "one rank";
  } else if (std::string why = channels_reason(reported, result, d); !why.empty()) {
    result.how = group_backend::channels;
    result.by = transports_text(result, transport);
    result.why = std::move(why);
  } else if (result.islands.size() == 1) {
    result.how = group_backend::library;
    result.by = libraries_text(reported, result);
    result.why = fmt::format("all on {}, one island", tandem::name(kind));
  } else {
    result.how = group_backend::levels;
    result.by = fmt::format("{} inside, {} across", libraries_text(reported, result),
                            transports_text(result, transport));
    result.why = islands_text(reported, result);
  }
  return result;
}

}  // namespace

bool group_choice::uses_path(std::size_t at) const noexcept {
  // Two ranks have a single path.
  if (ranks.size() == 2 && at == 1) return false;
  if (how != group_backend::levels) return how == group_backend::channels;
  const int from = ranks[at], to = ranks[index_after(at, ranks.size())];
  return std::ranges::none_of(islands, [from, to](const std::vector<int>& island) {
    return std::ranges::count(island, from) > 0 && std::ranges::count(island, to) > 0;
  });
}

std::string group_choice::text() const {
  return fmt::format("{} {}, ranks {}: {} ({})", name, number, ranks_text(ranks), by, why);
}

std::vector<group_choice> choose_backends(const rank_groups& groups,
                                          std::span<const rank_facts> reported,
                                          const transport_between& transport) {
  std::vector<group_choice> result;
  for (std::size_t i = 0; i < groups.members.size(); ++i) {
    result.push_back(choose(groups.name, i, groups.members[i], reported, transport));
  }
  return result;
}

std::string text_of(std::span<const group_choice> choices) {
  std::string text;
  for (const group_choice& each : choices) text += each.text() + "\n";
  return text;
}

}  // namespace tandem
