#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem::detail {

/// A library that a vendor brings: what the process has of it already, under whatever name and
/// from whatever folder, for a second copy would have streams and memory of its own; else the first
/// of `names` that the loader finds. Never to be closed: such libraries leave handlers behind.
/// @param stem  "libamdhip64", by which /proc/self/maps is searched
/// @param failure  where null is returned: what was missing
void* open_library(std::span<const char* const> names, std::string_view stem, std::string& failure);

/// The first file among these lines of /proc/self/maps whose name is `stem`, a dot or a dash, and
/// anything; empty: none. A name without a dash is no other library's: "libamdhip64-0f3c.so".
std::string mapped_library(std::string_view maps, std::string_view stem);

}  // namespace tandem::detail
