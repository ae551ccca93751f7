#pragma once

#include <string>
#include <tandem/fabric.hpp>
#include <vector>

#include "layout.hpp"
#include "report.hpp"

namespace tandem::train {

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
