#pragma once

#include <span>
#include <string>

namespace tandem::planner {

/// `tandem plan`: the plan that ranks would agree on, or have agreed on, and why; or their
/// measurements, as a file. Returns the exit status.
/// @par Errors `errc::bad_option`, `errc::bad_input`, one line.
int plan_main(std::span<const std::string> args);

}  // namespace tandem::planner
