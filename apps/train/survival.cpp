#include "survival.hpp"

#include <algorithm>

namespace tandem::train {

std::vector<int> complete_replicas(const layout& before, const std::vector<int>& left) {
  std::vector<int> complete;
  for (int replica = 0; replica < before.replicas(); ++replica) {
    const std::vector<int> ranks = before.pipeline(replica);
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&left](int rank) {
      return std::find(left.begin(), left.end(), rank) != left.end();
    });
    if (all) complete.push_back(replica);
  }
  return complete;
}

std::vector<int> ranks_of(const layout& before, const std::vector<int>& replicas) {
  std::vector<int> ranks;
  for (const int replica : replicas) {
    const std::vector<int> of_replica = before.pipeline(replica);
    ranks.insert(ranks.end(), of_replica.begin(), of_replica.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace tandem::train
