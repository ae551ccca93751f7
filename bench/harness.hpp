#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "perf/record.hpp"

/// Common to all programs of bench/: the same sizes, loops, checks and records, so that their
/// results differ only by the library measured.
namespace tandem::bench {

using message = std::span<std::byte>;

/// One rank of a library under comparison, with blocking calls.
class endpoint {
 public:
  virtual ~endpoint() = default;
  virtual std::string channel() const = 0;  ///< the name in records: "raw", "openmpi", ...
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends all messages of a window; returns when their memory may be reused.
  virtual void send(int to, std::span<const message> window) = 0;
  /// Receives one message into each element of the window, of exactly that length.
  virtual void recv(int from, std::span<const message> window) = 0;

  // Point-to-point programs do not override these.
  virtual void barrier();  ///< default: one byte to rank 0 and one back
  virtual void broadcast(std::span<std::byte> data, int root);
  virtual void all_reduce(std::span<float> data);  ///< sum, in place
  /// Gathers every rank's block on every rank.
  virtual void all_gather(std::span<std::byte> block, std::span<std::byte> all);
  /// Sum; this rank's block is written to `block`. May overwrite `all`.
  virtual void reduce_scatter(std::span<float> all, std::span<float> block);
  /// Sends block i to rank i.
  virtual void all_to_all(std::span<std::byte> from, std::span<std::byte> into);
};

struct measurement {
  std::size_t bytes = 0;
  std::int64_t iters = 0;
};

struct plan {
  std::string op;  ///< an operation name of perf/operation.cpp
  std::vector<measurement> measurements;
  int ranks = 2;
  int depth = 1;  ///< messages in flight; 16 for oneway
  std::int64_t warmup = 20;
  std::string mode;  ///< for programs with several modes
};

/// Reads `OP --bytes 8,64K --iters 1000,200 [--ranks N] [--depth N] [--warmup N] [--mode WORD]`.
/// A single number of iterations applies to all sizes. On an invalid option: one line on stderr,
/// exit status 2.
plan parse_plan(int argc, char** argv);

/// Runs the plan on all ranks; rank 0 prints one line of JSON per size. Returns 0, or 1 if a byte
/// was wrong.
int measure(endpoint& at, const plan& what);

/// Prints the record of a point-to-point measurement, for programs with their own loops.
void print_record(const plan& what, const measurement& of, const std::string& channel,
                  std::vector<double> samples_us, std::uint64_t wrong_bytes);
/// The same for times merged over all ranks: the longest time of each iteration, and the longest
/// mean of a rank.
void print_times(const plan& what, const measurement& of, const std::string& channel,
                 const perf::times_us& times, std::uint64_t wrong_bytes);

/// Runs `body(rank)` in `ranks` processes, this one as rank 0; returns the highest exit status.
int fork_ranks(int ranks, const std::function<int(int)>& body);

/// A listening socket on a free loopback port, to be created before `fork_ranks`, and its port.
struct loopback_listener {
  int descriptor;
  std::uint16_t port;
};
loopback_listener listen_on_loopback();
/// Two connected blocking sockets over loopback TCP with TCP_NODELAY: rank 0 accepts, rank 1
/// connects.
int connect_pair(const loopback_listener& at, int rank);

/// Unless `ok`, exits with status 1 and one line on stderr: `what` and the text of errno.
void require(bool ok, const char* what);

}  // namespace tandem::bench
