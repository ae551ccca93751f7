#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <tandem/fabric.hpp>

#include "perf/options.hpp"
#include "perf/report.hpp"
#include "perf/shadow.hpp"

namespace tandem::perf {

/// Runs all sizes as one rank of a job and returns the wrong bytes of all ranks, the same number on
/// each.
/// @param at  where this rank's messages lie; @param out  rank 0's; null on all others
asio::awaitable<std::uint64_t> measure(fabric& job, const perf_options& o, place at, report* out);

}  // namespace tandem::perf
