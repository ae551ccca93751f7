#pragma once

#include <span>
#include <string>

namespace tandem::inventory {

/// `tandem devices`: every accelerator of this machine and its capabilities. Returns the
/// exit status. @par Errors `errc::bad_option`, `errc::bad_input`, one line.
int devices_main(std::span<const std::string> args);

}  // namespace tandem::inventory
