#pragma once

#include <string>
#include <tandem/settings.hpp>

namespace tandem {

/// A name that ranks of one host have in common: what the settings say, else the machine's name and
/// the boot that it runs on.
std::string host_name(const settings& options);

}  // namespace tandem
