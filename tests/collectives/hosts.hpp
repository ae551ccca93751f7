#pragma once

#include <cstdint>
#include <string>
#include <tandem/collectives/plan.hpp>
#include <vector>

#include "collectives/job.hpp"
#include "group.hpp"

namespace tandem::test {

using host_names = std::vector<std::string>;

inline const host_names layouts[] = {{"a", "a", "b", "b"},
                                     {"a", "b", "a", "b"},
                                     {"a", "b", "c", "c", "a", "b"},
                                     {"a", "a", "a", "b", "b", "b"},
                                     {"a", "b", "b"},
                                     {"b", "a", "c", "a", "c", "c", "a"},
                                     {"a", "a", "a"},
                                     {"a", "b", "c"},
                                     {"a"}};

/// Ranks on one machine that have agreed to be on several.
inline std::unique_ptr<job> job_on(const host_names& hosts) {
  const settings options = small_pieces();
  auto ranks = std::make_unique<job>(static_cast<int>(hosts.size()), options);
  facts known;
  known.host_of_rank = hosts;
  for (const auto& world : ranks->worlds) world->internals()->adopt(plan::of(known, options));
  return ranks;
}

/// Bytes that the channels between hosts have carried.
inline std::uint64_t crossed(job& ranks, const host_names& hosts) {
  std::uint64_t sum = 0;
  for (std::size_t a = 0; a < hosts.size(); ++a) {
    for (std::size_t b = 0; b < hosts.size(); ++b) {
      if (hosts[a] == hosts[b]) continue;
      sum += ranks.fabrics[a]->find(static_cast<int>(b))->stats().bytes_sent;
    }
  }
  return sum;
}

}  // namespace tandem::test
