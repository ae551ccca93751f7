#pragma once

#include <cstdint>
#include <tandem/collectives/algorithm.hpp>
#include <vector>

#include "plan/layout.hpp"

/// What the algorithms send, as data: without it nothing can be predicted, and a test can count it.
namespace tandem::detail {

/// Messages that go at the same time and are waited for before the next step. Counts are of the
/// rank, and of the host, that has the most of them to send or to receive.
struct step {
  std::uint64_t times = 1;     ///< so many such steps, one after the other
  std::uint64_t inside = 0;    ///< messages of one rank that stay in its host
  std::uint64_t outside = 0;   ///< messages of one rank that leave its host
  std::uint64_t crossing = 0;  ///< messages of one host that leave it
  std::uint64_t busy = 0;      ///< messages that stay in one host, at once
  std::uint64_t running = 0;   ///< ranks of one host that send or receive
  std::uint64_t part = 0;      ///< a message is part / whole of the data
  std::uint64_t whole = 1;
  bool combines = false;  ///< what comes in is combined with what is there
  bool chunked = false;   ///< each message goes in chunks, of which one is combined while the next
                          ///< travels
  int level = 0;  ///< 1..3: of a way on two levels, which slices of the data pass one behind the
                  ///< other; 0: not
  bool piped = false;  ///< the steps overlap: a chunk goes on while the next one comes in
  bool local = false;  ///< no message: `busy` ranks of a host each copy that much of their own

  bool operator==(const step&) const = default;
};

/// The steps of an operation over these ranks, rank 0 the root where there is one. Their number is
/// at most that of the ranks, or so. @pre `is_defined(what, how)`, and not `automatic`.
std::vector<step> steps_of(collective what, algorithm how, const layout& where);

}  // namespace tandem::detail
