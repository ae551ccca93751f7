#pragma once

#include <span>
#include <string>

namespace tandem::perf {

/// `tandem perf OP ...`: measures channels and collectives, with every byte checked. Runs as one
/// rank of a job if a launcher started it, else starts its own ranks: threads for local, processes
/// for other channels.
/// @return the exit status: 1 if a byte was wrong.
/// @par Errors `tandem::error`: a wrong option, a file that cannot be written, a lost rank.
int perf_main(std::span<const std::string> args);

}  // namespace tandem::perf
