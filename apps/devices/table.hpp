#pragma once

#include <string>

#include "devices/inventory.hpp"

namespace tandem::inventory {

/// Human-readable: a paragraph for each device, a reason for each missing capability.
std::string table(const std::vector<vendor>& all);

/// One device as one line of JSON, without end of line.
std::string json(const device& one);

}  // namespace tandem::inventory
