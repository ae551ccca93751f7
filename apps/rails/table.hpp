#pragma once

#include <string>
#include <tandem/channels/rails.hpp>
#include <vector>

namespace tandem::rails {

/// A table for people: one line for each interface, more for its other addresses and for RDMA on
/// it. What keeps every interface from RDMA is said once, below.
std::string table(const std::vector<rail_choice>& choices);

/// One interface as one line of JSON, without end of line.
std::string json(const rail_choice& one);

}  // namespace tandem::rails
