#pragma once

#include <string>
#include <vector>

#include "rail_record.hpp"

namespace tandem::train {

/// Throughput and state of one pair of NICs in equal parts of the run, over all of its rails.
struct rail_track {
  struct part {
    double bytes_per_s = 0;  ///< both directions; 0 if there was no rail or all were lost
    int rails = 0, lost = 0;
    rail_state worst = rail_state::absent;
  };
  std::string name;  ///< "eth1"; "eth1 - eth2" if the ends differ; with islands if those differ
  std::vector<part> parts;
  double bytes = 0;  ///< over the run
};

/// The tracks of `rails`, all with the same parts of 0.1 s or more, at most 150 of them, from the
/// start of the run to the last point. Throughput is the mean over `window_s` around each part,
/// without parts in which all rails were lost; a window of a few steps hides individual messages.
struct rail_tracks {
  double part_s = 0;
  std::vector<rail_track> tracks;
  std::vector<std::size_t> track_of_rail;  ///< for each rail, its index in `tracks`
};
rail_tracks make_tracks(const std::vector<rail_record>& rails, double window_s);

/// The stacked throughput of the tracks over the run as an SVG element, and below it one bar per
/// track with its state. Colours come from classes of the page and repeat after eight.
std::string draw_rails(const rail_tracks& what);

/// Table of all rails: bytes, share, state and losses.
/// @param tracks  track of each rail that the chart shows; those rails come first in `rails`
std::string rail_table(const std::vector<rail_record>& rails,
                       const std::vector<std::size_t>& tracks);

}  // namespace tandem::train
