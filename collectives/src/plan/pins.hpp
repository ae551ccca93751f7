#pragma once

#include <cstddef>
#include <string_view>
#include <tandem/plan.hpp>
#include <vector>

namespace tandem::detail {

/// A user's override of a part of the plan.
struct pin {
  collective what;
  std::size_t from_bytes = 0;
  std::size_t below_bytes = static_cast<std::size_t>(-1);
  algorithm how = algorithm::automatic;  ///< automatic: keep the plan's
  std::size_t chunk_bytes = 0;           ///< 0: keep the plan's
};

/// Parses the syntax documented under `plan`, Pins. @par Errors `errc::bad_option`: which pin, why,
/// and the nearest valid word.
std::vector<pin> parse_pins(std::string_view text);

/// Applies the pins in order. @pre `rules` are sorted, and each operation has a rule from 0 bytes.
std::vector<plan_rule> with_pins(std::vector<plan_rule> rules, const std::vector<pin>& pins);

}  // namespace tandem::detail
