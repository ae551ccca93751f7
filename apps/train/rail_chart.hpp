#pragma once

#include <string>
#include <vector>

#include "rail_tracks.hpp"

namespace tandem::train {

/// The stacked throughput of the tracks over the run as an SVG element, and below it one bar per
/// track with its state. Colours come from classes of the page and repeat after eight.
std::string draw_rails(const rail_tracks& what);

/// Table of all rails: bytes, share, state and losses.
/// @param tracks  track of each rail that the chart shows; those rails come first in `rails`
std::string rail_table(const std::vector<rail_record>& rails,
                       const std::vector<std::size_t>& tracks);

}  // namespace tandem::train
