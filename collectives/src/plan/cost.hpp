#pragma once

#include <cstdint>
#include <string>
#include <tandem/collectives/facts.hpp>

#include "plan/steps.hpp"

namespace tandem::detail {

/// How long the steps take for so many bytes, in ns: Hockney's latency plus bytes over rate
/// (Hockney 1994, The communication challenge for MPP), summed over the steps of the slowest rank,
/// plus what is combined, as Thakur, Rabenseifner and Gropp do (2005, Optimization of Collective
/// Communication Operations in MPICH, section 3). Beyond them: a step is as slow as the slower of
/// what stays inside a host and what crosses, where all ranks of a host share its link; and of
/// several messages at once each but the first costs a rank half of the latency inside a host,
/// which is mostly the processor's work (the overhead of Culler et al. 1993, LogP). Where a host
/// has fewer cores than messages at once, they take turns, and no latency hides behind another.
/// Inside a host a long message pays for its announcement, a short one is combined in a cache, and
/// what an algorithm copies in a rank's own memory counts. On devices none of that holds but the
/// copies; each combination is a kernel that is waited for. Of levels through which slices pass,
/// the slowest counts whole and the others with one slice.
///
/// In whole numbers: the same facts give the same times on every machine.
std::uint64_t predict_ns(const std::vector<step>& steps, const facts& known, std::uint64_t bytes,
                         std::uint64_t chunk_bytes);

/// What the steps do, for people: "6 steps, 1.50 of the data through a host's link".
std::string describe(const std::vector<step>& steps);

/// "8.3 us", "121 us", "14 ms".
std::string time_text(std::uint64_t ns);

}  // namespace tandem::detail
