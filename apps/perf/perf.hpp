#pragma once

#include <span>
#include <string>

namespace tandem::perf {

/// `tandem perf OP ...`: measures channels and collectives, every byte checked. Runs as one rank of
/// a job where a launcher started it, else starts its own ranks: processes for tcp, threads for
/// local.
/// @return the exit status: 1 where a byte was wrong.
/// @par Errors `tandem::error` of a wrong option, a file that cannot be written, a lost rank.
int perf_main(std::span<const std::string> args);

}  // namespace tandem::perf
