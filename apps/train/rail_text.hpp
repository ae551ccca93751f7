#pragma once

#include <string>
#include <vector>

#include "rail_log.hpp"

namespace tandem::train {

/// "1.2 GB/s": 1e9 bytes.
std::string rate_text(double bytes_per_s);
/// "1.2 GB"
std::string bytes_text(double bytes);

/// The state of the rails in forms of decreasing length; empty if there are none:
/// "eth0 up 1.2 GB/s  eth1 lost", "eth0 1.2 GB/s  eth1 lost", "1 of 2 NICs up 1.2 GB/s, eth1 lost",
/// "1/2 up 1.2 GB/s".
std::vector<std::string> rail_texts(const std::vector<nic_status>& nics);

}  // namespace tandem::train
