#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::detail {

/// The ranks of each host. Hosts are numbered in the order of their first ranks.
struct layout {
  explicit layout(const std::vector<std::string>& host_of_rank);

  int ranks() const noexcept { return static_cast<int>(host.size()); }
  int hosts() const noexcept { return static_cast<int>(members.size()); }
  /// Whether all hosts have the same number of ranks.
  bool equal() const noexcept;
  /// The number of ranks of the largest host.
  std::size_t max_ranks_per_host() const noexcept;
  /// All ranks, host by host.
  std::vector<int> in_order() const;
  /// Whether there are several hosts, and one of them has several ranks.
  bool two_levels() const noexcept { return hosts() > 1 && hosts() < ranks(); }

  std::vector<int> host;                  ///< by rank
  std::vector<int> local_rank;            ///< by rank: its local rank in its host
  std::vector<std::vector<int>> members;  ///< by host: its ranks, ascending
};

}  // namespace tandem::detail
