#pragma once

#include <string>
#include <tandem/fabric.hpp>
#include <vector>

#include "layout.hpp"
#include "report.hpp"

namespace tandem::train {

/// What carries messages, by `fabric::kind_to`: "shm", or "shm, tcp"; empty: nothing.
struct carriers {
  std::string inside;   ///< within islands
  std::string between;  ///< from island to island
};

/// Of this rank's channels.
carriers carriers_of(const layout& who, fabric& over);
/// Of all ranks' channels.
carriers carriers_of(const std::vector<rank_record>& ranks);

}  // namespace tandem::train
