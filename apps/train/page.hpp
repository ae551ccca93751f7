#pragma once

#include <string>
#include <tandem/fabric.hpp>
#include <vector>

#include "job.hpp"
#include "session.hpp"

namespace tandem::train {

/// States the hardware of the islands: all ranks compute on CPUs, no GPU is used.
std::string hardware_note(const std::vector<rank_record>& ranks);

/// The transports used: "shm inside islands, tcp between islands". Islands of one rank have no
/// inside part.
std::string transports_text(const std::vector<rank_record>& ranks);

/// All rails between these ranks; empty if the channels have none.
std::vector<rail_record> rails_of(const std::vector<rank_record>& ranks);

/// The part of the time in which the ranks of a pipeline do not compute: as simulated with
/// `costs_of` and messages that take no time, and as measured, from the second step on.
struct bubbles {
  double predicted = 0;
  double measured = 0;
};
/// @pre the outcome is rank 0's.
bubbles bubbles_of(const job& what, const outcome& distributed);
/// "bubble 27.3 % predicted, 30.1 % measured"
std::string text_of(const bubbles& both);

/// The report of a run; `reference` is empty if no reference was run.
report page_of(const job& what, const outcome& distributed, const history& reference);

/// Machine-readable: one JSON object. Losses also as hexadecimal floats, which keep every bit.
std::string json_of(const job& what, const outcome& distributed, const history& reference);

/// Transports in use, by `fabric::kind_to`: "shm", or "shm, tcp"; empty: none.
struct transports {
  std::string inside;   ///< within islands
  std::string between;  ///< from island to island
};

/// Transports of this rank's channels.
transports transports_of(const layout& who, fabric& over);
/// Transports of all ranks' channels.
transports transports_of(const std::vector<rank_record>& ranks);

}  // namespace tandem::train
