#pragma once

#include <string>
#include <vector>

#include "rail_tracks.hpp"

namespace tandem::train {

/// The throughput of the tracks over the run, one upon the other, as an SVG element, and below a
/// bar for each that shows its state. Colours come from classes of the page and repeat after eight.
std::string draw_rails(const rail_tracks& what);

/// All rails with what they carried and how often they were lost.
/// @param tracks  of each rail that the chart shows; they come first in `rails`
std::string rail_table(const std::vector<rail_record>& rails,
                       const std::vector<std::size_t>& tracks);

}  // namespace tandem::train
