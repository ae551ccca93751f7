#include "communicator/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tandem/collectives.hpp>
#include <tandem/detail/crc32c.hpp>
#include <utility>

namespace tandem::detail {
namespace {

constexpr std::size_t max_listed = 8;

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  const std::size_t listed = std::min(ranks.size(), max_listed);
  const std::vector<int> shown(ranks.begin(), ranks.begin() + static_cast<long>(listed));
  const std::size_t rest = ranks.size() - listed;
  return fmt::format("ranks {}{}", fmt::join(shown, ", "),
                     rest > 0 ? fmt::format(" and {} more", rest) : "");
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

error disagreement(const difference& found) {
  return error(errc::call_mismatch,
               {.peer = found.rank,
                .rail = {},
                .phase = "agreeing on a plan",
                .detail = found.text,
                .advice = "give every rank the same settings, profile and program"});
}

std::string plan_settings(std::string_view channel, const settings& options) {
  std::string text = fmt::format("channel {}\n", channel);
  for (const option& o : option_table()) {
    const bool of_plan =
        o.name == "plan" || o.name == "collective-chunk-bytes" || o.name == "reproducible";
    if (of_plan) text += fmt::format("--{} {}\n", o.name, o.get(options));
  }
  if (options.profile.empty()) return text + "no profile\n";
  const std::string profile = facts::load(options.profile, options.meet_timeout).text();
  for (const std::string_view line : lines_of(profile)) {
    if (!line.starts_with("host ")) text += fmt::format("profile {}\n", line);
  }
  return text;
}

std::optional<difference> difference_of(std::span<const std::string> text_of_rank) {
  std::vector<std::vector<std::string_view>> lines;
  std::size_t count = 0;
  for (const std::string& text : text_of_rank) {
    lines.push_back(lines_of(text));
    count = std::max(count, lines.back().size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::map<std::string_view, std::vector<int>> ranks_with;
    for (std::size_t r = 0; r < lines.size(); ++r) {
      ranks_with[i < lines[r].size() ? lines[r][i] : "nothing"].push_back(static_cast<int>(r));
    }
    if (ranks_with.size() < 2) continue;
    std::vector<std::pair<std::string_view, std::vector<int>>> sides(ranks_with.begin(),
                                                                     ranks_with.end());
    std::ranges::sort(sides, [](const auto& a, const auto& b) {
      if (a.second.size() != b.second.size()) return a.second.size() > b.second.size();
      return a.second < b.second;
    });
    std::string text;
    for (const auto& [line, ranks] : sides) {
      text += fmt::format("{}\"{}\" on {}", text.empty() ? "" : "; ", line, ranks_text(ranks));
    }
    return difference{text, sides.back().second.front()};
  }
  return std::nullopt;
}

asio::awaitable<std::vector<std::string>> exchange_texts(communicator& all, std::string mine) {
  const auto n = static_cast<std::size_t>(all.size());
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(n);
  // A fixed algorithm, because settings that affect the selection may still differ between ranks.
  const const_view length_view(std::span(&length, 1));
  const mutable_view lengths_view(lengths);
  co_await all_gather(all, length_view, lengths_view, algorithm::direct);

  const std::vector<std::size_t> bytes_of_rank(lengths.begin(), lengths.end());
  std::string together(std::accumulate(bytes_of_rank.begin(), bytes_of_rank.end(), std::size_t{0}),
                       '\0');
  const const_view mine_view(mine);
  const mutable_view together_view(together);
  co_await all_gather_v(all, mine_view, together_view, bytes_of_rank, algorithm::direct);

  std::vector<std::string> result;
  std::size_t at = 0;
  for (const std::size_t bytes : bytes_of_rank) {
    result.push_back(together.substr(at, bytes));
    at += bytes;
  }
  co_return result;
}

asio::awaitable<void> compare_plans(communicator& all, std::string mine) {
  const std::uint32_t hash = crc32c(mine.data(), mine.size());
  std::vector<std::uint32_t> hashes(static_cast<std::size_t>(all.size()));
  const const_view hash_view(std::span(&hash, 1));
  const mutable_view hashes_view(hashes);
  co_await all_gather(all, hash_view, hashes_view, algorithm::direct);
  if (std::ranges::adjacent_find(hashes, std::not_equal_to<>()) == hashes.end()) co_return;
  const std::vector<std::string> texts = co_await exchange_texts(all, std::move(mine));
  if (const std::optional<difference> found = difference_of(texts)) throw disagreement(*found);
}

}  // namespace tandem::detail
