#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <tandem/fabric.hpp>

#include "perf/device_mirror.hpp"
#include "perf/options.hpp"
#include "perf/report.hpp"

namespace tandem::perf {

/// Measures all sizes as one rank of a job. Returns the total of wrong bytes of all ranks, the same
/// on each.
/// @param at  memory of this rank's messages; @param out  rank 0's report; null on other ranks
asio::awaitable<std::uint64_t> measure(fabric& job, const perf_options& o, memory_location at,
                                       report* out);

}  // namespace tandem::perf
