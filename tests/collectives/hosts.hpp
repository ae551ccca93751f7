#pragma once

#include <cstdint>
#include <string>
#include <tandem/plan.hpp>
#include <vector>

#include "collectives/job.hpp"
#include "communicator/group.hpp"

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

/// Ranks on one machine whose plan assigns them to several hosts.
inline std::unique_ptr<job> job_on(const host_names& hosts) {
  const settings options = small_pieces();
  auto ranks = std::make_unique<job>(static_cast<int>(hosts.size()), options);
  facts known;
  known.host_of_rank = hosts;
  for (const auto& world : ranks->worlds) world->internals()->adopt(plan::of(known, options));
  return ranks;
}

/// Bytes sent over channels between hosts.
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

/// Fails rank 2 after 0, 1, 2, ... handlers, with growing gaps, until all ranks have ended before.
/// Every other rank has to complete or to fail naming rank 2. `begin` starts the work of all ranks.
/// Returns the number of handlers.
template <class Begin>
int lose_after_any_step(const host_names& hosts, Begin begin) {
  bool over = false;
  int steps = 0;
  for (; !over; steps += 1 + steps / 16) {
    SCOPED_TRACE(steps);
    const std::unique_ptr<job> ranks = job_on(hosts);
    const auto data = begin(*ranks);
    for (int i = 0; i < steps && !over; ++i) {
      ranks->context.poll_one();
      over = ranks->running == 0;
    }
    ranks->fabrics[2]->fail(error(
        errc::peer_lost, {.peer = 2, .rail = {}, .phase = {}, .detail = "gone", .advice = {}}));
    const bool ended = ranks->finish();
    EXPECT_TRUE(ended);
    if (!ended) break;
    for (int r = 0; r < ranks->size(); ++r) {
      if (!ranks->code(r)) continue;
      EXPECT_EQ(ranks->code(r), errc::peer_lost) << ranks->text(r);
      EXPECT_EQ(ranks->why(r).peer, 2) << ranks->text(r);
    }
    EXPECT_FALSE(over && ranks->code(0)) << "all had ended";
  }
  return steps;
}

}  // namespace tandem::test
