#pragma once

#include <functional>
#include <tandem/launch.hpp>
#include <tandem/settings.hpp>

namespace tandem::cli {

/// Reads what the engine reads only once the ranks have met: the profile, the secret, certificates.
/// @par Errors  `errc::bad_input`: which file, and why.
void check_inputs(const settings& engine);

/// Runs `checks` of one rank. Where they throw, this rank joins the job only to tell the others
/// why it cannot go on, so that all end at once with the same error; then it throws that.
void check_as_rank(const launch_info& who, const settings& engine,
                   const std::function<void()>& checks);

}  // namespace tandem::cli
