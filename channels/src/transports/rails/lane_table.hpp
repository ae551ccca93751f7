#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "transports/rails/envelope.hpp"

namespace tandem::rails {

/// The states of the lanes of one end, and the fences of lost lanes.
///
/// | lane state | meaning                                            | carries new chunks        |
/// |------------|----------------------------------------------------|---------------------------|
/// | absent     | never connected                                    | no                        |
/// | up         | received from within `timeouts::suspect`           | yes                       |
/// | suspect    | silent for longer                                  | while no other lane is up |
/// | lost       | closed here; a reconnect comes with a higher epoch | no                        |
///
/// A fence says up to which epoch an end reads nothing more from a lane.
class lane_table {
 public:
  enum class state : std::uint8_t { absent, up, suspect, lost };
  struct fence {
    std::uint16_t lane = 0;
    std::uint32_t epoch = 0;
    bool needs_reply = false;  ///< the peer's fence has not been received yet
  };

  explicit lane_table(std::size_t lanes) : lanes_(lanes) {}

  std::size_t size() const noexcept { return lanes_.size(); }
  state at(std::uint16_t lane) const noexcept { return lanes_[lane].at; }
  std::uint32_t epoch(std::uint16_t lane) const noexcept { return lanes_[lane].epoch; }
  bool is_standby(std::uint16_t lane) const noexcept { return lanes_[lane].is_standby; }
  bool is_live(std::uint16_t lane) const noexcept {
    return lanes_[lane].at == state::up || lanes_[lane].at == state::suspect;
  }
  /// Live, and not about to be closed.
  bool is_open(std::uint16_t lane) const noexcept { return is_live(lane) && !must_close(lane); }
  bool any_live() const noexcept;
  /// A lane that is no standby is up.
  bool any_active_up() const noexcept;
  /// The number of lanes that carry chunks now.
  std::size_t carrying() const noexcept;

  /// True where this epoch of a lane is newer than every earlier one, at either end.
  bool accepts_epoch(std::uint16_t lane, std::uint32_t epoch) const noexcept {
    return ahead(epoch, next_epoch(lane)) >= 0;
  }
  std::uint32_t next_epoch(std::uint16_t lane) const noexcept;

  void up(std::uint16_t lane, std::uint32_t epoch, bool is_standby) noexcept;
  void received(std::uint16_t lane) noexcept {
    if (lanes_[lane].at == state::suspect) lanes_[lane].at = state::up;
  }
  /// @pre the lane is live
  void suspect(std::uint16_t lane) noexcept { lanes_[lane].at = state::suspect; }
  /// The caller has to close the lane until `lost` or `up`.
  void request_close(std::uint16_t lane) noexcept { lanes_[lane].closing = true; }
  bool must_close(std::uint16_t lane) const noexcept { return lanes_[lane].closing; }
  /// The lane is closed here: its fence is due after `quiesced`. @pre the lane is live
  void lost(std::uint16_t lane) noexcept;
  /// No NIC accesses memory for a lost epoch of this lane any more.
  void quiesced(std::uint16_t lane) noexcept;

  /// A fence from the peer, up to this epoch, closes the lane that is live now.
  bool closes_live(std::uint16_t lane, std::uint32_t epoch) const noexcept {
    return is_live(lane) && ahead(epoch, lanes_[lane].epoch) >= 0;
  }
  void fenced_by_peer(std::uint16_t lane, std::uint32_t epoch, bool needs_reply) noexcept;
  /// The fence is sent again while the peer's is missing.
  void repeat_fence(std::uint16_t lane) noexcept {
    if (lanes_[lane].awaits_peer_fence) lanes_[lane].fence_due = true;
  }
  /// A fence to be sent now, once.
  std::optional<fence> next_fence() noexcept;

 private:
  struct record {
    state at = state::absent;
    bool closing = false;
    bool is_standby = false;
    std::uint32_t epoch = 0;
    std::optional<std::uint32_t> closed_epoch;       // up to here, this end reads nothing more
    std::optional<std::uint32_t> peer_closed_epoch;  // up to here, the peer's fence was received
    bool awaits_peer_fence = false;                  // the peer's fence has not been received yet
    bool fence_due = false;                          // our own fence is to be sent, or sent again
    int draining = 0;  // lost epochs that are not yet quiesced: the fence waits for them
  };

  std::vector<record> lanes_;
};

std::string_view name(lane_table::state of) noexcept;

}  // namespace tandem::rails
