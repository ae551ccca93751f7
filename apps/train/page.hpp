#pragma once

#include "job.hpp"
#include "session.hpp"

namespace tandem::train {

/// What islands and ranks are made of, honestly: no GPU computes here.
std::string hardware_note(const std::vector<rank_record>& ranks);

/// "shm inside islands, tcp between them": what carried their messages. Islands of one rank have
/// nothing inside.
std::string carried_text(const std::vector<rank_record>& ranks);

/// All rails between these ranks; empty where the channels have none.
std::vector<rail_record> rails_of(const std::vector<rank_record>& ranks);

/// The report of a training; `reference` is empty where none was run.
report page_of(const job& what, const outcome& together, const history& reference);

/// For programs: one JSON object. Losses also as hexadecimal floats, which keep every bit.
std::string json_of(const job& what, const outcome& together, const history& reference);

}  // namespace tandem::train
