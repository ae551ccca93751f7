#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tandem::detail {

/// What a rank says of itself before kernels carry its messages.
struct kernel_beginning {
  std::size_t device = 0;  ///< a hash of its UUID
  std::int32_t process = 0;
  std::uint8_t can = 0;
  /// Kernels of several processes run at the same time there.
  std::uint8_t runs_processes_at_once = 0;

  /// Whether the kernels of two ranks wait for each other on one device, of which each uses the
  /// whole for a while: a message took 2.3 ms on an H200, and 14 us with CUDA's MPS.
  bool takes_turns_with(const kernel_beginning& other) const noexcept {
    return device == other.device && process != other.process &&
           (runs_processes_at_once == 0 || other.runs_processes_at_once == 0);
  }
};
static_assert(std::is_trivially_copyable_v<kernel_beginning>);

}  // namespace tandem::detail
