#pragma once

#include <cstddef>
#include <string_view>
#include <tandem/collectives/plan.hpp>
#include <vector>

namespace tandem::detail {

/// A part of the plan that a user has chosen.
struct pin {
  collective what;
  std::size_t from_bytes = 0;
  std::size_t below_bytes = static_cast<std::size_t>(-1);
  algorithm how = algorithm::automatic;  ///< automatic: as the plan has it
  std::size_t chunk_bytes = 0;           ///< 0: as the plan has it
};

/// Reads what is under `plan`, Pins. @par Errors `errc::bad_option`: which pin, why, the nearest
/// right word.
std::vector<pin> parse_pins(std::string_view text);

/// @pre `rules` are sorted, and the first of each operation is from 0 bytes on.
std::vector<plan_rule> with_pins(std::vector<plan_rule> rules, const std::vector<pin>& pins);

}  // namespace tandem::detail
