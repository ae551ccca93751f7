#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "rails/core.hpp"

namespace tandem::rails {

/// Bytes of one lane into the core: heads and short payloads through a staging buffer, longer
/// payloads straight into the view, with the next head behind them in the same system call. No I/O:
/// the caller fills `room` and says so.
class lane_reader {
 public:
  enum class outcome : std::uint8_t {
    good,
    broken,   ///< damaged bytes: the lane is at its end, the channel is not. `why`
    violated  ///< what no correct peer sends: the channel is at its end. `why`
  };

  lane_reader(core& into, std::uint16_t lane) noexcept : core_(into), lane_(lane) {}

  /// Where the next bytes go, in one or two parts.
  std::span<const iovec> room();
  /// So many bytes are there.
  outcome advance(std::size_t bytes, core::time_point now);
  const std::string& why() const noexcept { return why_; }

 private:
  static constexpr std::size_t staging_bytes = 8 * 1024;
  /// Of a long payload, so much is read at once where a checksum has to find it in the cache.
  static constexpr std::size_t piece_bytes = 64 * 1024;

  outcome land(std::size_t bytes);
  outcome parse(core::time_point now);
  outcome take_head(std::span<const std::byte> staged, std::size_t& used, core::time_point now);
  outcome take_parcel(const envelope& e, std::span<const std::byte> staged, std::size_t& used);
  outcome fail(outcome how, std::string why);

  core& core_;
  const std::uint16_t lane_;
  std::array<std::byte, staging_bytes> staging_;
  std::size_t staged_ = 0;
  inbound* landing_ = nullptr;
  std::array<iovec, 2> parts_;
  std::string why_;
};

}  // namespace tandem::rails
