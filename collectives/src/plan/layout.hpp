#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::detail {

/// Which ranks share a host. Hosts are numbered in the order of their first ranks.
struct layout {
  explicit layout(const std::vector<std::string>& host_of_rank);

  int ranks() const noexcept { return static_cast<int>(host.size()); }
  int hosts() const noexcept { return static_cast<int>(members.size()); }
  /// Every host has as many ranks as any other.
  bool equal() const noexcept;
  /// Of the host that has the most.
  std::size_t most_ranks() const noexcept;
  /// All ranks, host by host.
  std::vector<int> in_order() const;
  /// Several hosts, and a host with several ranks.
  bool two_levels() const noexcept { return hosts() > 1 && hosts() < ranks(); }

  std::vector<int> host;                  ///< by rank
  std::vector<int> place;                 ///< by rank: which of its host's ranks it is
  std::vector<std::vector<int>> members;  ///< by host: its ranks, ascending
};

}  // namespace tandem::detail
