#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rail_record.hpp"

namespace tandem::train {

/// Statistics of one rail of a channel; a lost rail recovers under the next epoch.
inline rail_stats stats(const std::string& nic, const char* state, std::uint64_t sent,
                        std::uint64_t received, std::uint32_t times_lost = 0) {
  rail_stats one;
  one.name = nic + " 10.0.1.2 - 10.0.1.3:4000";
  one.state = state;
  one.epoch = 1 + times_lost;
  one.bytes_arrived = sent;
  one.bytes_received = received;
  one.times_lost = times_lost;
  if (times_lost > 0) one.why_lost = "the peer closed it";
  return one;
}

/// A rank's log sampled every 0.1 s for 10 s: r1 and r2 each carry 1 MB per sample in both
/// directions together, and r2 is lost from 3.1 s to 5 s.
inline rail_log log_with_a_loss(int rank, int peer) {
  rail_log log(rank);
  std::uint64_t carried = 0;
  for (int sample = 0; sample <= 100; ++sample) {
    const bool lost = sample > 30 && sample <= 50;
    if (sample > 0 && !lost) carried += 500'000;
    log.record(sample / 10.0, peer,
               {stats("r1", "up", 500'000u * sample, 500'000u * sample),
                stats("r2", lost ? "lost" : "up", carried, carried, sample > 30 ? 1 : 0)});
  }
  log.finish(10.0);
  return log;
}

inline std::vector<rail_record> records_with_a_loss() {
  std::vector<rail_history> ends = log_with_a_loss(0, 1).rails();
  const std::vector<rail_history> there = log_with_a_loss(1, 0).rails();
  ends.insert(ends.end(), there.begin(), there.end());
  return join_rails(ends, {"nvidia", "amd"});
}

}  // namespace tandem::train
