// The subcommands of `tandem`: the function that runs each.
#pragma once

#include <span>
#include <string>

namespace tandem::inventory {

/// `tandem devices`: every accelerator of this machine and its capabilities. Returns the
/// exit status. @par Errors `errc::bad_option`, `errc::bad_input`, one line.
int devices_main(std::span<const std::string> args);

}  // namespace tandem::inventory

namespace tandem::perf {

/// `tandem perf OP ...`: measures channels and collectives, with every byte checked. Runs as one
/// rank of a job if a launcher started it, else starts its own ranks: threads for local, processes
/// for other channels.
/// @return the exit status: 1 if a byte was wrong.
/// @par Errors `tandem::error`: a wrong option, a file that cannot be written, a lost rank.
int perf_main(std::span<const std::string> args);

}  // namespace tandem::perf

namespace tandem::planner {

/// `tandem plan`: the plan that ranks would agree on, or have agreed on, and why; or their
/// measurements, as a file. Returns the exit status.
/// @par Errors `errc::bad_option`, `errc::bad_input`, one line.
int plan_main(std::span<const std::string> args);

}  // namespace tandem::planner

namespace tandem::rails {

/// `tandem rails`: every network interface, whether it is used, and why. Returns the exit status.
/// @par Errors `errc::bad_option`, `errc::bad_input`, one line.
int rails_main(std::span<const std::string> args);

}  // namespace tandem::rails

namespace tandem::train {

/// `tandem train [options]`: under a launcher, one rank of the job; otherwise the launcher of the
/// job. Returns the exit status.
/// @par Errors `tandem::error` for invalid options and input; a failed rank is reported by its
/// launcher.
int train_main(std::span<const std::string> args);

}  // namespace tandem::train
