#pragma once

#include <span>
#include <string>
#include <vector>

#include "rail_log.hpp"

namespace tandem::train {

/// One rail between two ranks, from what both ends said of it.
struct rail_record {
  int first = 0, second = 0;  ///< the ranks, the lower one first
  int lane = 0;
  std::string first_island, second_island;
  std::string first_nic, second_nic;  ///< "?" where that end said nothing
  rail_state state = rail_state::absent;
  std::uint32_t epoch = 0, times_lost = 0;
  std::string why_lost;                  ///< the last time; what both ranks say where they differ
  std::uint64_t sent = 0, received = 0;  ///< bytes, as the first rank counts
  double share = 0;                      ///< of what all rails of these two ranks carried
  std::vector<rail_point> points;

  bool crosses() const noexcept { return first_island != second_island; }
  std::uint64_t bytes() const noexcept { return sent + received; }
};

/// Puts the ends of all ranks together: rails between islands first, then by rank and lane.
/// @param islands  of each rank
std::vector<rail_record> join_rails(std::span<const rail_history> ends,
                                    const std::vector<std::string>& islands);

/// Those between islands, or all where there are none between any.
std::vector<rail_record> rails_to_show(const std::vector<rail_record>& all);

/// For people, in one line: "2 rails between islands carried 1.2 GB; lost: r2 twice". Empty where
/// there are none.
std::string rails_verdict(const std::vector<rail_record>& all);

/// For programs: a list of JSON objects in one line.
std::string rails_json(const std::vector<rail_record>& all);

}  // namespace tandem::train
