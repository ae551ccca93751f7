#pragma once

#include <cstddef>
#include <span>
#include <tandem/memory.hpp>
#include <vector>

#include "cli/memory_place.hpp"

namespace tandem::perf {

using cli::place, cli::place_for;

/// Device copies of the messages of an exercise. Messages are filled and checked in host memory;
/// for device memory each has a copy, which is transferred outside the timed region.
class shadow {
 public:
  explicit shadow(place at) : at_(at) {}

  bool on_host() const noexcept { return at_.kind == memory_kind::host; }
  /// The view to pass to a call for these bytes: the bytes themselves, or their device copy, which
  /// is created with their contents on first use.
  /// @par Errors `device_failed`: out of device memory.
  mutable_view of(std::span<std::byte> bytes) {
    return on_host() ? mutable_view(bytes) : on_device(bytes);
  }
  /// Copies all messages passed to `of` to the device, or back.
  void up();
  void down();

 private:
  struct one {
    std::span<std::byte> bytes;
    buffer there;
  };
  mutable_view on_device(std::span<std::byte> bytes);
  void copy(const one& which, bool to_device);

  place at_;
  std::vector<one> all_;
};

}  // namespace tandem::perf
