#pragma once

#include <memory>
#include <random>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>

#include "support/channel_case.hpp"
#include "support/rig_lanes.hpp"
#include "support/wire_tap.hpp"

namespace tandem::test {

/// Two ends of a channel over rails on loopback, without proofs: the first end connects the lanes,
/// and a test may reset them. With `settings::encrypt` they are encrypted, with
/// `settings::job_secret`.
class rails_rig : public std::enable_shared_from_this<rails_rig> {
 public:
  /// @param make  empty: lanes over plain or encrypted TCP
  static awaitable<std::shared_ptr<rails_rig>> connect(settings options, std::size_t lanes,
                                                       bool tapped = false,
                                                       lane_connection_maker make = {});

  /// The channel handles; call it once.
  channel_pair channels();
  /// Resets a lane's connection, as a middlebox would.
  void cut(std::uint16_t lane);
  /// Resets lanes at random, about this often, until one of the channels is over.
  void keep_cutting(std::chrono::milliseconds every);

  std::shared_ptr<rails::link> ends[2];
  std::shared_ptr<wire_tap> tap;  ///< between the two ends, if tapped

 private:
  awaitable<void> cut_for_ever(std::chrono::milliseconds every);

  std::mt19937 random_{1};
};

}  // namespace tandem::test
