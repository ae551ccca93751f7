#pragma once

#include <cstdint>
#include <string>
#include <tandem/plan.hpp>

#include "plan/steps.hpp"

namespace tandem::detail {

/// Predicted time of the steps for that many bytes, in ns: Hockney's latency plus bytes over rate
/// (Hockney 1994, The communication challenge for MPP), summed over the steps of the slowest rank,
/// plus the combining, as in Thakur, Rabenseifner and Gropp (2005, Optimization of Collective
/// Communication Operations in MPICH, section 3). In addition:
/// - A step takes the maximum of its time inside hosts and across, where all ranks of a host share
///   its link.
/// - Of several concurrent messages of a rank, each after the first costs half of the latency
///   inside a host, mostly processor time (the overhead of Culler et al. 1993, LogP).
/// - Where a host has fewer cores than concurrent messages, they take turns, and latencies do not
///   overlap.
/// - Inside a host a long message pays for its announcement, a short one is combined in the cache,
///   and copies within a rank's own memory count.
/// - On devices none of these holds except the copies; each combination is a kernel that is waited
///   for.
/// - Of pipelined levels, the slowest counts in full and the others with one slice.
///
/// Computed with integers: the same facts give the same times on every machine.
std::uint64_t predict_ns(const std::vector<step>& steps, const facts& known, std::uint64_t bytes,
                         std::uint64_t chunk_bytes);

/// A summary of the steps for display: "6 steps, 1.50 of the data through a host's link".
std::string describe(const std::vector<step>& steps);

/// "8.3 us", "121 us", "14 ms".
std::string time_text(std::uint64_t ns);

/// Facts that are the same in every run of a job: the latencies and rates that are usual for the
/// kinds of channel of `measured`; instead of its cores, whether each rank has one; a board where
/// one may be shared.
///
/// The values are medians of this project's measurements, of which only the order matters: a
/// reduction's algorithm changes with the length at which transfer takes longer than latency.
facts nominal(const facts& measured);

/// Algorithms of an operation with the same number combine in the same order: their results have
/// the same bits. 0 for all algorithms of an operation that does not combine.
int order_of(collective what, algorithm how) noexcept;

}  // namespace tandem::detail
