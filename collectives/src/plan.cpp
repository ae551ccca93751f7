#include <algorithm>
#include <bit>
#include <tandem/collectives/plan.hpp>
#include <utility>

namespace tandem {
namespace {

/// The fewest bytes of which a chain of chunks ends sooner than a binomial tree of whole messages:
/// with C chunks the chain takes 1 + (n - 2) / C transfer times, the tree ceil(log2 n). None: two
/// ranks, which are a chain already.
std::size_t chain_bytes(int ranks, std::size_t chunk_bytes) noexcept {
  const auto levels = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  if (levels < 2) return 0;
  const std::size_t chunks = static_cast<std::size_t>(ranks - 2) / (levels - 1) + 1;
  return (chunks - 1) * chunk_bytes + 1;
}

}  // namespace

plan::plan(std::vector<plan_rule> rules) : rules_(std::move(rules)) {
  std::ranges::stable_sort(rules_, [](const plan_rule& a, const plan_rule& b) {
    return a.what != b.what ? a.what < b.what : a.from_bytes < b.from_bytes;
  });
}

plan plan::standard(int ranks, const settings& options) {
  const std::size_t chunk = std::max<std::size_t>(options.collective_chunk_bytes, 1);
  std::vector<plan_rule> rules{
      {collective::barrier, 0, algorithm::direct, chunk},
      {collective::broadcast, 0, algorithm::tree, chunk},
      {collective::reduce, 0, algorithm::tree, chunk},
      {collective::all_reduce, 0, algorithm::recursive_doubling, chunk},
      {collective::all_reduce, options.all_reduce_ring_bytes, algorithm::ring, chunk},
      {collective::all_gather, 0, algorithm::bruck, chunk},
      {collective::all_gather, options.all_reduce_ring_bytes, algorithm::ring, chunk},
      {collective::reduce_scatter, 0, algorithm::halving_doubling, chunk},
      {collective::reduce_scatter, options.all_reduce_ring_bytes, algorithm::pairwise, chunk},
      {collective::gather, 0, algorithm::direct, chunk},
      {collective::scatter, 0, algorithm::direct, chunk},
      {collective::all_to_all, 0, algorithm::direct, chunk},
      {collective::all_to_all, options.all_reduce_ring_bytes, algorithm::pairwise, chunk},
  };
  if (const std::size_t from = chain_bytes(ranks, chunk); from > 0) {
    rules.push_back({collective::broadcast, from, algorithm::chain, chunk});
    rules.push_back({collective::reduce, from, algorithm::chain, chunk});
  }
  return plan(std::move(rules));
}

const plan_rule& plan::choose(collective what, std::size_t bytes) const noexcept {
  const plan_rule* chosen = nullptr;
  for (const plan_rule& rule : rules_) {
    if (rule.what == what && (chosen == nullptr || rule.from_bytes <= bytes)) chosen = &rule;
  }
  return *chosen;
}

}  // namespace tandem
