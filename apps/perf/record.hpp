#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem::perf {

/// The times of all iterations of one measurement, in microseconds.
struct times_us {
  double min = 0, p50 = 0, p99 = 0;
  /// Of one rank: the longest of all ranks' own means. What a call costs where ranks do not wait
  /// for each other in each (the root of a broadcast runs ahead, and its p50 says nothing).
  double mean = 0;
};

/// Smallest, median and 99th percentile (nearest rank) of `samples_us`, and the mean that is given;
/// zeros where there are none.
times_us summarize(std::vector<double> samples_us, double longest_mean_us);
/// 0 where there are none.
double mean_of(const std::vector<double>& samples_us);

/// One measurement: a line of a results file.
///
/// An iteration is half a round trip of `depth` messages (pingpong), `depth` messages and one
/// acknowledgement (oneway), or one call of a collective, or one message to the next rank
/// (sendrecv). `bytes` is the length of one message, or of the data of each rank: of all blocks
/// where the operation has one for each rank, as in nccl-tests.
struct record {
  std::string op, channel;
  std::string memory;           ///< empty: the host's
  std::string algorithm;        ///< empty: the plan's
  std::string type, reduction;  ///< empty: it reduces nothing
  int ranks = 2;
  int islands = 0;  ///< 0: none
  std::size_t bytes = 0;
  int depth = 1;
  std::int64_t iters = 0;
  times_us time_us;
  std::uint64_t wrong_bytes = 0;
  /// What each rail carried during the timed iterations, where the channel has rails.
  std::vector<std::pair<std::string, std::uint64_t>> rail_bytes;
  std::string commit = "unknown";
  std::vector<std::pair<std::string, std::string>>
      settings;  ///< those that differ from their defaults

  /// Bytes of an iteration by its median time, in units of 1e9 bytes per second; 0 for a barrier.
  double algbw_gb_per_s() const;
  /// `algbw_gb_per_s` by the operation's factor, of nccl-tests (operation.cpp): what the busiest
  /// link carries.
  double busbw_gb_per_s() const;
  /// The record as one line of JSON with host, kernel, compiler and date, without end of line.
  std::string json() const;
};

/// How many iterations fill about `budget_us`, from the time of one: at least 5, at most 50000.
std::int64_t iterations_for(double iteration_us, double budget_us);

}  // namespace tandem::perf
