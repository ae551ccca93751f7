#pragma once

#include <string>
#include <string_view>
#include <tandem/memory.hpp>

namespace tandem::cli {

/// Kind of memory, and device, of messages.
struct memory_location {
  /// An empty view of this kind and device.
  const_view like() const noexcept { return {nullptr, 0, kind, device}; }

  memory_kind kind = memory_kind::host;
  int device = 0;
};

/// Checks a value of `--memory`: "host", "cuda", "hip", or a comma-separated list of them.
/// @param choices  the valid kinds, for the error
/// @par Errors `errc::bad_option`: the word that is not a memory kind.
void check_memory(const std::string& words, std::string_view choices = "host, cuda or hip");

/// The kind for the rank with this local rank: kinds are assigned round-robin.
/// @pre check_memory(words).
memory_kind memory_kind_for(const std::string& words, int local_rank);

/// The memory of the rank with this local rank: kinds and devices are assigned round-robin.
/// @pre check_memory(words). @par Errors `errc::unsupported_memory`: no device of that kind is
/// available, and why.
memory_location memory_location_for(const std::string& words, int local_rank);

}  // namespace tandem::cli
