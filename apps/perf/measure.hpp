#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <tandem/fabric.hpp>
#include <tandem/launch.hpp>

#include "perf/device_mirror.hpp"
#include "perf/options.hpp"
#include "perf/report.hpp"

namespace tandem::perf {

/// Measures all sizes as one rank of a job. Returns the total of wrong bytes of all ranks, the same
/// on each.
/// @param at  memory of this rank's messages; @param out  rank 0's report; null on other ranks
asio::awaitable<std::uint64_t> measure(fabric& job, const perf_options& o, memory_location at,
                                       report* out);

/// Measures as one rank of a launcher's job. @return the wrong bytes of all ranks.
std::uint64_t run_rank(const launch_info& who, const perf_options& o);

/// Measures with all ranks in this process, each with a thread and an io_context of its own.
/// @return the wrong bytes of all ranks.
std::uint64_t run_local(int ranks, const perf_options& o);

}  // namespace tandem::perf
