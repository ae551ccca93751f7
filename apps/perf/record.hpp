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
  /// The longest of the ranks' means. The cost of a call for operations in which ranks do not wait
  /// for each other in every call (the root of a broadcast runs ahead, so its p50 is meaningless).
  double mean = 0;
};

/// Minimum, median and 99th percentile (nearest-rank method) of `samples_us`, and the given mean;
/// zeros if there are no samples.
times_us summarize(std::vector<double> samples_us, double longest_mean_us);
/// 0 if there are no samples.
double mean_of(const std::vector<double>& samples_us);

/// One measurement: a line of a results file.
///
/// An iteration is half a round trip of `depth` messages (pingpong), `depth` messages and one
/// acknowledgement (oneway), or one call of a collective, or one message to the next rank
/// (sendrecv). `bytes` is the length of one message, or of the data of each rank: the total of all
/// blocks if the operation has one for each rank, as in nccl-tests.
struct record {
  std::string op, channel;
  std::string memory;           ///< empty: host memory
  std::string algorithm;        ///< empty: chosen by the plan
  std::string type, reduction;  ///< empty: not a reduction
  int ranks = 2;
  int islands = 0;  ///< 0: none
  std::size_t bytes = 0;
  int depth = 1;
  std::int64_t iters = 0;
  times_us time_us;
  std::uint64_t wrong_bytes = 0;
  /// Bytes carried by each rail during the timed iterations, if the channel has rails.
  std::vector<std::pair<std::string, std::uint64_t>> rail_bytes;
  std::string commit = "unknown";
  std::vector<std::pair<std::string, std::string>>
      settings;  ///< those that differ from their defaults

  /// Bytes of an iteration divided by its median time, in 1e9 bytes per second; 0 for a barrier.
  double algbw_gb_per_s() const;
  /// `algbw_gb_per_s` times the operation's factor from nccl-tests (operation.cpp): the traffic of
  /// the busiest link.
  double busbw_gb_per_s() const;
  /// The record as one line of JSON with host, kernel, compiler and date, without end of line.
  std::string json() const;
};

/// Number of iterations that take about `budget_us`, given the time of one: 5 to 50000.
std::int64_t iterations_for(double iteration_us, double budget_us);

}  // namespace tandem::perf
