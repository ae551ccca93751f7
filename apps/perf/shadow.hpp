#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::perf {

/// Where messages lie.
struct place {
  memory_kind kind = memory_kind::host;
  int device = 0;
};

/// Checks a value of `--memory`: "host", "cuda", "hip", or several with commas between them.
/// @par Errors `errc::bad_option`: which word is none.
void check_memory(const std::string& words);

/// Of the rank that is number `local_rank` on its host: kinds and devices go round.
/// @pre check_memory(words). @par Errors `errc::unsupported_memory`: there is no device of that
/// kind here, and why.
place place_for(const std::string& words, int local_rank);

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
  mutable_view of(std::span<std::byte> bytes);
  /// To the device, and back: everything that `of` was asked for.
  void up();
  void down();

 private:
  struct one {
    std::span<std::byte> bytes;
    buffer there;
  };
  void copy(const one& which, bool to_device);

  place at_;
  std::vector<one> all_;
};

}  // namespace tandem::perf
