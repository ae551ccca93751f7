#pragma once

#include <cstddef>
#include <span>
#include <tandem/collectives/algorithm.hpp>
#include <tandem/settings.hpp>
#include <vector>

namespace tandem {

/// From so many bytes on, a collective is done so.
struct plan_rule {
  collective what = collective::barrier;
  std::size_t from_bytes = 0;
  algorithm how = algorithm::automatic;
  std::size_t chunk_bytes = 0;  ///< the longest piece that travels at once
};

/// What a group has agreed on: for each operation and length one algorithm and chunk.
///
/// The length is that of the data of one rank: of `all` for all_gather, reduce_scatter, gather,
/// scatter and all_to_all.
class plan {
 public:
  /// For every operation at least the rule from 0 bytes on.
  explicit plan(std::vector<plan_rule> rules);
  /// The rules for a group of which nothing is known but its size: every rank on one host.
  static plan standard(int ranks, const settings& options);

  const plan_rule& choose(collective what, std::size_t bytes) const noexcept;
  std::span<const plan_rule> rules() const noexcept { return rules_; }

 private:
  std::vector<plan_rule> rules_;  // by operation, then by length
};

}  // namespace tandem
