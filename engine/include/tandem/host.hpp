#pragma once

#include <string>
#include <tandem/settings.hpp>

namespace tandem {

/// The host identity that ranks on one host have in common: `settings::host`, else the host name
/// and the boot id.
std::string host_name(const settings& options);

}  // namespace tandem
