#pragma once

#include <cstdint>
#include <tandem/launch.hpp>

#include "perf/options.hpp"

namespace tandem::perf {

/// Measures as one rank of a launcher's job. @return the wrong bytes of all ranks.
std::uint64_t run_rank(const launch_info& who, const perf_options& o);

/// Measures with all ranks in this process, each with a thread and an io_context of its own.
/// @return the wrong bytes of all ranks.
std::uint64_t run_local(int ranks, const perf_options& o);

}  // namespace tandem::perf
