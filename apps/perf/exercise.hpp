#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <tandem/channel.hpp>
#include <tandem/communicator.hpp>
#include <vector>

#include "perf/collective_data.hpp"
#include "perf/device_mirror.hpp"
#include "perf/options.hpp"

namespace tandem::perf {

/// One operation on one rank at one size: the measured loop and the checks of its data.
class exercise {
 public:
  virtual ~exercise() = default;
  /// Writes new data to send and overwrites the receive buffers.
  virtual void prepare(std::uint64_t epoch) = 0;
  /// Runs `count` iterations and appends the time of each to `samples_us`. The loop is inside this
  /// coroutine, so that an iteration costs no coroutine frame of its own.
  virtual asio::awaitable<void> iterate(std::uint64_t epoch, std::int64_t count,
                                        std::vector<double>& samples_us) = 0;
  /// Checks the whole result of the last iteration. Returns the wrong bytes.
  virtual std::uint64_t wrong_bytes(std::uint64_t epoch, std::int64_t last_iteration) = 0;

  std::uint64_t wrong = 0;  ///< found by the quick checks of `iterate`
};

/// True if islands carry out this operation.
bool supports_islands(const operation& op) noexcept;

/// The collective `o.op` of all ranks.
std::unique_ptr<exercise> make_collective(communicator& comm, const perf_options& o,
                                          const collective_params& mine, memory_location at);

/// sendrecv, directly on the channels to the next and the previous rank, which may be the same.
std::unique_ptr<exercise> make_neighbours(channel& next, channel& previous, const perf_options& o,
                                          const collective_params& mine, memory_location at);

/// pingpong or oneway between the first and the last rank, directly on their channel.
/// @param rank  0 for the first, 1 for the last
std::unique_ptr<exercise> make_point_to_point(channel& over, int rank, const perf_options& o,
                                              std::size_t bytes, memory_location at);

/// The exercise of ranks between the two of a point-to-point operation: does nothing.
std::unique_ptr<exercise> make_idle();

/// Microseconds since `start`.
inline double micros_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace tandem::perf
