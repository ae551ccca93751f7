#pragma once

#include <cstdint>
#include <tandem/collectives.hpp>
#include <vector>

#include "plan/layout.hpp"

/// The messages of each algorithm, as data: the input of the cost model, which tests can count.
namespace tandem::detail {

/// Concurrent messages that all complete before the next step. Counts are those of the rank, or of
/// the host, that sends or receives the most.
struct step {
  std::uint64_t times = 1;     ///< repetitions, one after the other
  std::uint64_t inside = 0;    ///< messages of one rank that stay in its host
  std::uint64_t outside = 0;   ///< messages of one rank that leave its host
  std::uint64_t crossing = 0;  ///< messages of one host that leave it
  std::uint64_t busy = 0;      ///< messages that stay in one host, at once
  std::uint64_t running = 0;   ///< ranks of one host that send or receive
  std::uint64_t part = 0;      ///< a message is part / whole of the data
  std::uint64_t whole = 1;
  bool combines = false;  ///< received data is combined with the rank's own
  bool chunked = false;   ///< each message is cut into chunks, one of which is combined while the
                          ///< next is in flight
  int level = 0;          ///< 1..3: level of a two-level algorithm; levels overlap, a slice each;
                          ///< 0: not two-level
  bool piped = false;     ///< the steps overlap: a chunk is forwarded while the next one arrives
  bool local = false;     ///< no message: `busy` ranks of a host each copy that much of their own

  bool operator==(const step&) const = default;
};

/// The steps of an operation over these ranks, with rank 0 as the root if there is one. Their
/// number is about that of the ranks at most. @pre `is_defined(what, how)`, and not `automatic`.
std::vector<step> steps_of(collective what, algorithm how, const layout& where);

}  // namespace tandem::detail
