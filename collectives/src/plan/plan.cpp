#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <tandem/detail/crc32c.hpp>
#include <tandem/plan.hpp>
#include <utility>

#include "layout.hpp"
#include "pins.hpp"

namespace tandem {
namespace {

/// Length from which the transferred bytes cost more than the number of messages: measured on two
/// cores over loopback TCP and shared memory.
constexpr std::size_t long_bytes = 32 * 1024;

/// The minimum length for which a chain of chunks is faster than a binomial tree of whole messages:
/// with C chunks the chain takes 1 + (n - 2) / C transfer times, the tree ceil(log2 n). 0 for two
/// ranks, whose tree is a chain.
std::size_t chain_bytes(int ranks, std::size_t chunk_bytes) noexcept {
  const auto levels = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  if (levels < 2) return 0;
  const std::size_t chunks = static_cast<std::size_t>(ranks - 2) / (levels - 1) + 1;
  return (chunks - 1) * chunk_bytes + 1;
}

}  // namespace

plan::plan(std::vector<plan_rule> rules, facts known)
    : rules_(std::move(rules)), known_(std::move(known)) {
  std::ranges::stable_sort(rules_, [](const plan_rule& a, const plan_rule& b) {
    return a.what != b.what ? a.what < b.what : a.from_bytes < b.from_bytes;
  });
  for (const plan_rule& rule : rules_) ++first_[static_cast<std::size_t>(rule.what) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

plan plan::standard(int ranks, const settings& options) {
  const std::size_t chunk = std::max<std::size_t>(options.collective_chunk_bytes, 1);
  std::vector<plan_rule> rules{
      {collective::barrier, 0, algorithm::direct, chunk, {}},
      {collective::broadcast, 0, algorithm::tree, chunk, {}},
      {collective::reduce, 0, algorithm::tree, chunk, {}},
      {collective::all_reduce, 0, algorithm::recursive_doubling, chunk, {}},
      {collective::all_reduce, long_bytes, algorithm::ring, chunk, {}},
      {collective::all_gather, 0, algorithm::bruck, chunk, {}},
      {collective::all_gather, long_bytes, algorithm::ring, chunk, {}},
      {collective::reduce_scatter, 0, algorithm::halving_doubling, chunk, {}},
      {collective::reduce_scatter, long_bytes, algorithm::pairwise, chunk, {}},
      {collective::gather, 0, algorithm::direct, chunk, {}},
      {collective::scatter, 0, algorithm::direct, chunk, {}},
      {collective::all_to_all, 0, algorithm::direct, chunk, {}},
      {collective::all_to_all, long_bytes, algorithm::pairwise, chunk, {}},
  };
  if (const std::size_t from = chain_bytes(ranks, chunk); from > 0) {
    rules.push_back({collective::broadcast, from, algorithm::chain, chunk, {}});
    rules.push_back({collective::reduce, from, algorithm::chain, chunk, {}});
  }
  for (plan_rule& rule : rules) rule.why = "default, not measured";
  plan usual(std::move(rules), facts::one_host(ranks));
  return plan(detail::with_pins(std::move(usual.rules_), detail::parse_pins(options.plan)),
              std::move(usual.known_));
}

const plan_rule& plan::choose(collective what, std::size_t bytes) const noexcept {
  const auto operation = static_cast<std::size_t>(what);
  std::size_t chosen = first_[operation];
  while (chosen + 1 < first_[operation + 1] && rules_[chosen + 1].from_bytes <= bytes) ++chosen;
  return rules_[chosen];
}

std::string plan::text() const {
  std::string result;
  for (const std::vector<int>& ranks : detail::layout(known_.host_of_rank).members) {
    result += fmt::format("host of ranks {}\n", fmt::join(ranks, ","));
  }
  for (const plan_rule& rule : rules_) {
    result += fmt::format("{} from {}: {}\n", name(rule.what), format_bytes(rule.from_bytes),
                          describe(rule));
  }
  return result;
}

std::uint32_t plan::hash() const {
  const std::string all = text();
  return crc32c(all.data(), all.size());
}

std::string describe(const plan_rule& rule) {
  if (!has_chunks(rule.what, rule.how)) return std::string(name(rule.how));
  return fmt::format("{}, chunk {}", name(rule.how), format_bytes(rule.chunk_bytes));
}

bool has_chunks(collective what, algorithm how) noexcept {
  return how == algorithm::ring || how == algorithm::chain || how == algorithm::two_level ||
         (how == algorithm::pairwise && what == collective::reduce_scatter);
}

}  // namespace tandem
