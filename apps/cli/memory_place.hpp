#pragma once

#include <string>
#include <string_view>
#include <tandem/memory.hpp>

namespace tandem::cli {

/// Where messages lie.
struct place {
  /// An empty view there.
  const_view like() const noexcept { return {nullptr, 0, kind, device}; }

  memory_kind kind = memory_kind::host;
  int device = 0;
};

/// Checks a value of `--memory`: "host", "cuda", "hip", or several with commas between them.
/// @param choices  what the command takes, for the error
/// @par Errors `errc::bad_option`: which word is none.
void check_memory(const std::string& words, std::string_view choices = "host, cuda or hip");

/// The kind of the rank that is number `local_rank` on its host: kinds go round.
/// @pre check_memory(words).
memory_kind kind_for(const std::string& words, int local_rank);

/// Of the rank that is number `local_rank` on its host: kinds and devices go round.
/// @pre check_memory(words). @par Errors `errc::unsupported_memory`: there is no device of that
/// kind here, and why.
place place_for(const std::string& words, int local_rank);

}  // namespace tandem::cli
