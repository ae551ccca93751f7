#pragma once

#include <span>
#include <string>

namespace tandem::rails {

/// `tandem rails`: every network interface, whether it is used, and why. Returns the exit status.
/// @par Errors `errc::bad_option`, `errc::bad_input`, one line.
int rails_main(std::span<const std::string> args);

}  // namespace tandem::rails
