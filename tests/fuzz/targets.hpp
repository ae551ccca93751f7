#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string_view>

/// Whatever reads bytes from outside, fed with anything: each target aborts where a promise is
/// broken, and the sanitizers where memory is.
namespace tandem::fuzz {

using bytes = std::span<const std::byte>;

struct target {
  std::string_view name;  ///< of its folder in corpus/ too
  void (*run)(bytes input);
};
std::span<const target> targets() noexcept;

inline void require(bool kept) {
  if (!kept) std::abort();
}

}  // namespace tandem::fuzz
