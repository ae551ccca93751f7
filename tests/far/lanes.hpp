#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "support/rig_lanes.hpp"

namespace tandem::test::far {

/// A test that says much to the far end does not turn its loop meanwhile, and its lanes are silent.
inline constexpr rails::timeouts bounds{std::chrono::seconds(30), std::chrono::seconds(60)};

/// What a pair's lanes go over.
struct lanes_of_pair {
  std::vector<asio::ip::address> there;  ///< of the other machine, for each lane
  std::vector<std::string> devices;      ///< of this one, for each lane; none: TCP

  /// Opens the devices; they close with the last wire.
  lane_connection_maker open(const asio::any_io_executor& executor) const;
};

}  // namespace tandem::test::far
