#pragma once

#include <span>
#include <string>
#include <vector>

#include "rail_log.hpp"

namespace tandem::train {

/// One rail between two ranks, merged from the reports of both ends.
struct rail_record {
  int first = 0, second = 0;  ///< the ranks, the lower one first
  int lane = 0;
  std::string first_island, second_island;
  std::string first_nic, second_nic;  ///< "?" if that end reported nothing
  rail_state state = rail_state::absent;
  std::uint32_t epoch = 0, times_lost = 0;
  std::string why_lost;                  ///< reason of the last loss; both ranks' if they differ
  std::uint64_t sent = 0, received = 0;  ///< bytes, as counted by the first rank
  double share = 0;                      ///< of the bytes on all rails of these two ranks
  std::vector<rail_point> points;

  bool crosses() const noexcept { return first_island != second_island; }
  std::uint64_t bytes() const noexcept { return sent + received; }
};

/// Merges the ends of all ranks: rails between islands first, then by rank and lane.
/// @param islands  the island of each rank
std::vector<rail_record> join_rails(std::span<const rail_history> ends,
                                    const std::vector<std::string>& islands);

/// The rails between islands, or all rails if there are none between islands.
std::vector<rail_record> rails_to_show(const std::vector<rail_record>& all);

/// One line for the user: "2 rails between islands carried 1.2 GB; lost: r2 twice". Empty if there
/// are no rails.
std::string rails_summary(const std::vector<rail_record>& all);

/// Machine-readable: a JSON array of objects in one line.
std::string rails_json(const std::vector<rail_record>& all);

}  // namespace tandem::train
