#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "transports/rails/core.hpp"

namespace tandem::rails {

/// Parses the bytes of one lane for the core: heads and short payloads through a staging buffer,
/// longer payloads straight into the view, with the next head behind them in the same system call.
/// Does no I/O: the caller reads into `buffers` and calls `advance`.
class lane_reader {
 public:
  enum class outcome : std::uint8_t {
    good,
    broken,   ///< damaged bytes: the lane ends, the channel does not; `why`
    violated  ///< protocol violation: the channel ends; `why`
  };

  lane_reader(core& into, std::uint16_t lane) noexcept : core_(into), lane_(lane) {}

  /// Where to read the next bytes, in one or two parts.
  std::span<const iovec> buffers();
  /// So many bytes were read.
  outcome advance(std::size_t bytes, core::time_point now);
  const std::string& why() const noexcept { return why_; }

 private:
  static constexpr std::size_t staging_bytes = 8 * 1024;
  /// Read at once of a long payload with a checksum, which then finds it in the cache.
  static constexpr std::size_t piece_bytes = 64 * 1024;

  outcome receive_payload(std::size_t bytes);
  outcome parse(core::time_point now);
  outcome take_head(std::span<const std::byte> staged, std::size_t& used, core::time_point now);
  outcome take_packet(const envelope& e, std::span<const std::byte> staged, std::size_t& used);
  outcome fail(outcome how, std::string why);

  core& core_;
  const std::uint16_t lane_;
  std::array<std::byte, staging_bytes> staging_;
  std::size_t staged_ = 0;
  inbound* incoming_ = nullptr;
  std::array<iovec, 2> parts_;
  std::string why_;
};

}  // namespace tandem::rails
