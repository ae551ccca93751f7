#pragma once

#include <cstddef>
#include <span>
#include <tandem/memory.hpp>
#include <vector>

#include "cli/memory_place.hpp"

namespace tandem::perf {

using cli::place, cli::place_for;

/// The messages of an exercise where they really lie. What fills and checks them works on the
/// host's bytes; in device memory each has a shadow there, brought up to date outside of what is
/// timed.
class shadow {
 public:
  explicit shadow(place at) : at_(at) {}

  bool on_host() const noexcept { return at_.kind == memory_kind::host; }
  /// What a call gets in the place of these bytes: they themselves, or their shadow, with their
  /// contents where it is new.
  /// @par Errors `device_failed`: no memory for it.
  mutable_view of(std::span<std::byte> bytes) {
    return on_host() ? mutable_view(bytes) : on_device(bytes);
  }
  /// To the device, and back: everything that `of` was asked for.
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
