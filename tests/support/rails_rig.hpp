#pragma once

#include <memory>
#include <random>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>

#include "support/channel_case.hpp"
#include "support/rig_lanes.hpp"
#include "support/wire_tap.hpp"

namespace tandem::test {

/// Two ends of a channel of rails over loopback, without proofs: lanes are dialled by the first end
/// and may be cut at will. With `settings::encrypt` they are sealed, with `settings::job_secret`.
class rails_rig : public std::enable_shared_from_this<rails_rig> {
 public:
  /// @param make  empty: the connection itself is the wire
  static awaitable<std::shared_ptr<rails_rig>> connect(settings options, std::size_t lanes,
                                                       bool tapped = false,
                                                       lane_connection_maker make = {});

  /// The handles, once.
  channel_pair channels();
  /// Resets a lane's connection, as a middle box would.
  void cut(std::uint16_t lane);
  /// Cuts a lane about so often, until one of the channels is over.
  void keep_cutting(std::chrono::milliseconds every);

  std::shared_ptr<rails::link> ends[2];
  std::shared_ptr<wire_tap> tap;  ///< between the two, where they are tapped

 private:
  awaitable<void> cut_for_ever(std::chrono::milliseconds every);

  std::mt19937 random_{1};
};

}  // namespace tandem::test
