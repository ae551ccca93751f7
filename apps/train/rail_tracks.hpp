#pragma once

#include <string>
#include <vector>

#include "rail_record.hpp"

namespace tandem::train {

/// What one pair of NICs did in equal parts of the run, over all rails that go over it.
struct rail_track {
  struct part {
    double bytes_per_s = 0;  ///< both ways; 0 where no rail was there or all were lost
    int rails = 0, lost = 0;
    rail_state worst = rail_state::absent;
  };
  std::string name;  ///< "eth1"; "eth1 - eth2" where the ends differ; with islands where they do
  std::vector<part> parts;
  double bytes = 0;  ///< over the run
};

/// The tracks of `rails`, all with the same parts of 0.1 s or more, at most 150 of them, from the
/// run's start to the last point. Throughput is the mean over `window_s` around each part, as far
/// as its rails were not lost; a window of some steps shows no single messages.
struct rail_tracks {
  double part_s = 0;
  std::vector<rail_track> tracks;
  std::vector<std::size_t> of_rail;  ///< of each rail, into `tracks`
};
rail_tracks make_tracks(const std::vector<rail_record>& rails, double window_s);

}  // namespace tandem::train
