#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rails/core.hpp"
#include "rails/wire.hpp"

namespace tandem::rails {

/// Pieces of the core on their way into one lane's socket: taken in batches, given to the stream
/// together, a small message and its head in one system call.
class lane_writer {
 public:
  enum class outcome : std::uint8_t {
    silent,  ///< nothing to say
    wrote,   ///< there may be more
    full     ///< the socket takes no more now, or is broken: the reader hears of that
  };

  lane_writer(core& from, std::uint16_t lane) noexcept : core_(from), lane_(lane) {}

  /// One batch at most.
  outcome write_some(wire& to, core::time_point now);
  /// The operations that own the payloads in hand end: keeps copies of what is still to be written.
  void own_payloads();
  bool is_busy() const noexcept { return first_ < size_; }

 private:
  static constexpr std::size_t batch_pieces = 8;

  bool fill(core::time_point now);
  void advance(std::size_t bytes);
  bool place(wire& to);

  core& core_;
  const std::uint16_t lane_;
  std::array<piece, batch_pieces> batch_;
  std::size_t size_ = 0;
  std::size_t first_ = 0;
  std::size_t first_done_bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
};

}  // namespace tandem::rails
