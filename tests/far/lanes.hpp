#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "support/rig_lanes.hpp"

namespace tandem::test::far {

/// A test that exchanges many requests with the far end does not run its loop meanwhile, so its
/// lanes are silent.
inline constexpr rails::timeouts bounds{std::chrono::seconds(30), std::chrono::seconds(60)};

/// The addresses and devices of a pair's lanes.
struct lanes_of_pair {
  std::vector<asio::ip::address> there;  ///< addresses of the other host, for each lane
  std::vector<std::string> devices;      ///< devices of this host, for each lane; empty: TCP

  /// Opens the devices; they close with the last lane.
  lane_connection_maker open(const asio::any_io_executor& executor) const;
};

}  // namespace tandem::test::far
