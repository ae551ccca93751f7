#include "islands/division.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tandem/parallel.hpp>
#include <tuple>

namespace tandem::detail {
namespace {

std::string_view library_name(std::int32_t kind) noexcept {
  return static_cast<memory_kind>(kind) == memory_kind::hip ? "RCCL" : "NCCL";
}

std::string version_text(std::int32_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// The numbers that texts use for ranks.
class rank_names {
 public:
  explicit rank_names(std::span<const int> numbers) : numbers_(numbers) {}
  int operator()(int rank) const noexcept {
    return numbers_.empty() ? rank : numbers_[static_cast<std::size_t>(rank)];
  }
  std::vector<int> operator()(std::vector<int> ranks) const {
    for (int& rank : ranks) rank = (*this)(rank);
    return ranks;
  }

 private:
  std::span<const int> numbers_;
};

std::string fallback_reason(const std::vector<island_fact>& reported, const std::vector<int>& ranks,
                            rank_names called) {
  if (ranks.size() < 2) return {};
  const island_fact& first = reported[static_cast<std::size_t>(ranks.front())];
  std::map<std::string_view, int> rank_of_device;
  for (const int rank : ranks) {
    const island_fact& one = reported[static_cast<std::size_t>(rank)];
    if (one.library == 0) {
      return fmt::format("rank {} has no {}", called(rank), library_name(one.kind));
    }
    if (one.library != first.library) {
      return fmt::format("{} is {} on rank {} and {} on rank {}", library_name(one.kind),
                         version_text(first.library), called(ranks.front()),
                         version_text(one.library), called(rank));
    }
    const std::string_view uuid(one.uuid.data(), one.uuid.size());
    const auto [at, is_new] = rank_of_device.emplace(uuid, rank);
    if (!is_new) {
      return fmt::format("ranks {} and {} share a device", called(at->second), called(rank));
    }
  }
  return {};
}

std::string text_of(const std::vector<island_fact>& reported, const division& d,
                    rank_names called) {
  std::string text =
      fmt::format("{} island{}: ", d.members.size(), d.members.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < d.members.size(); ++i) {
    const island_fact& first = reported[static_cast<std::size_t>(d.members[i].front())];
    text += fmt::format("{}{} (rank{} {})", i == 0 ? "" : ", ",
                        name(static_cast<memory_kind>(first.kind)),
                        d.members[i].size() == 1 ? "" : "s", fmt::join(called(d.members[i]), ", "));
    if (!d.fallback_reason[i].empty()) {
      text += fmt::format(" by Tandem, because {}", d.fallback_reason[i]);
    } else if (d.members[i].size() > 1) {
      text += fmt::format(" by {}", library_text(first.kind, first.library));
    }
  }
  return text;
}

}  // namespace

std::string library_text(std::int32_t kind, std::int32_t version) {
  if (version == rank_facts::unknown_version) return std::string(library_name(kind));
  return fmt::format("{} {}", library_name(kind), version_text(version));
}

division::division(const std::vector<island_fact>& reported, std::span<const int> numbers)
    : island_of(reported.size()), local_rank_of(reported.size()) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> known;
  for (std::size_t rank = 0; rank < reported.size(); ++rank) {
    const auto [at, is_new] =
        known.emplace(std::pair(reported[rank].kind, reported[rank].colour), members.size());
    if (is_new) members.emplace_back();
    std::vector<int>& mine = members[at->second];
    island_of[rank] = static_cast<int>(at->second);
    local_rank_of[rank] = static_cast<int>(mine.size());
    mine.push_back(static_cast<int>(rank));
    const std::int32_t version = reported[rank].library;
    if (version != 0 && (min_library_version == 0 || version < min_library_version)) {
      min_library_version = version;
    }
  }
  const rank_names called(numbers);
  leader_count = static_cast<int>(reported.size());
  for (const std::vector<int>& ranks : members) {
    leader_count = std::min(leader_count, static_cast<int>(ranks.size()));
    fallback_reason.push_back(detail::fallback_reason(reported, ranks, called));
  }
  text = text_of(reported, *this, called);
}

bool division::can_use_libraries() const noexcept {
  return std::all_of(fallback_reason.begin(), fallback_reason.end(),
                     [](const std::string& w) { return w.empty(); });
}

segment segment_of(std::size_t count, int leader_count, int k) noexcept {
  const auto n = static_cast<std::size_t>(leader_count);
  const auto at = static_cast<std::size_t>(k);
  // Computed without overflow: equal shares, and one more for each of the first `rest`.
  const std::size_t share = count / n, rest = count % n;
  const std::size_t first = share * at + std::min(at, rest);
  return {first, share + (at < rest ? 1 : 0)};
}

}  // namespace tandem::detail
