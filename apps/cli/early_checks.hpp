#pragma once

#include <functional>
#include <tandem/launch.hpp>
#include <tandem/settings.hpp>

namespace tandem::cli {

/// Checks the files that the engine reads only after the rendezvous: profile, secret, certificates.
/// @par Errors  `errc::bad_input`: which file, and why.
void check_inputs(const settings& engine);

/// Runs the `checks` of one rank. If they throw, this rank joins the job only to report the error
/// to the other ranks, so that all end at once with the same error; then it rethrows.
void check_as_rank(const launch_info& who, const settings& engine,
                   const std::function<void()>& checks);

}  // namespace tandem::cli
