#pragma once

#include <string>
#include <tandem/channels.hpp>
#include <vector>

namespace tandem::rails {

/// Human-readable table: one line for each interface, further lines for its other addresses and
/// for its RDMA port. A reason that keeps all interfaces from RDMA is printed once, below.
std::string table(const std::vector<rail_choice>& choices);

/// One interface as one line of JSON, without end of line.
std::string json(const rail_choice& one);

}  // namespace tandem::rails
