#pragma once

#include <cstddef>
#include <span>
#include <tandem/memory.hpp>
#include <vector>

#include "cli/memory_location.hpp"

namespace tandem::perf {

using cli::memory_location, cli::memory_location_for;

/// Device copies of the messages of an exercise. Messages are filled and checked in host memory;
/// for device memory each has a copy, which is transferred outside the timed region.
class device_mirror {
 public:
  explicit device_mirror(memory_location at) : at_(at) {}

  bool on_host() const noexcept { return at_.kind == memory_kind::host; }
  /// The view to pass to a call for these bytes: the bytes themselves, or their device copy, which
  /// is created with their contents on first use.
  /// @par Errors `device_failed`: out of device memory.
  mutable_view of(std::span<std::byte> bytes) {
    return on_host() ? mutable_view(bytes) : on_device(bytes);
  }
  /// Copies all messages passed to `of` to the device, or back.
  void upload();
  void download();

 private:
  struct mirrored_buffer {
    std::span<std::byte> bytes;
    buffer device_buffer;
  };
  mutable_view on_device(std::span<std::byte> bytes);
  void copy(const mirrored_buffer& which, bool to_device);

  memory_location at_;
  std::vector<mirrored_buffer> buffers_;
};

}  // namespace tandem::perf
