#pragma once

#include <string>
#include <tandem/settings.hpp>
#include <vector>

#include "transports/rails/verbs/ports.hpp"

namespace tandem::verbs {

/// The RDMA ports of this machine.
struct local_ports {
  std::vector<port> all;
  std::string why_none;  ///< "no RDMA here: ...", one line with what to do; empty: there is some
  /// Devices that could not be read while others could: one line each.
  std::vector<std::string> problems;
};

/// Opens libibverbs and queries every device, unless `asked` is `rdma_use::off`. Milliseconds.
local_ports find_local_ports(rdma_use asked);

}  // namespace tandem::verbs
