#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transports/rails/core.hpp"
#include "transports/rails/nic/lane_connection.hpp"

namespace tandem::rails {

/// Writes of the core into one lane: taken in batches and written together, a small message and its
/// head in one system call.
class lane_writer {
 public:
  enum class outcome : std::uint8_t {
    idle,   ///< nothing to write
    wrote,  ///< there may be more
    full    ///< the socket would block, or has failed, which the reader finds out
  };

  lane_writer(core& from, std::uint16_t lane) noexcept : core_(from), lane_(lane) {}

  /// Writes one batch at most.
  outcome write_some(lane_connection& to, core::time_point now);
  /// Copies the payloads still to be written, as the operations that own them end.
  void copy_payloads();
  bool is_busy() const noexcept { return first_ < size_; }

 private:
  static constexpr std::size_t max_batch_writes = 8;

  bool fill(core::time_point now);
  void advance(std::size_t bytes);
  bool place(lane_connection& to);

  core& core_;
  const std::uint16_t lane_;
  std::array<lane_write, max_batch_writes> batch_;
  std::size_t size_ = 0;
  std::size_t first_ = 0;
  std::size_t first_done_bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
};

}  // namespace tandem::rails
