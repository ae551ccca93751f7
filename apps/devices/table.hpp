#pragma once

#include <string>

#include "devices/inventory.hpp"

namespace tandem::inventory {

/// For people: a paragraph for each device, a reason for each no.
std::string table(const std::vector<vendor>& all);

/// One device as one line of JSON, without end of line.
std::string json(const device& one);

}  // namespace tandem::inventory
