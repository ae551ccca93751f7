#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string_view>

/// Parsers of external bytes with arbitrary input: a target aborts if an invariant is violated, the
/// sanitizers on memory errors.
namespace tandem::fuzz {

using bytes = std::span<const std::byte>;

struct target {
  std::string_view name;  ///< also of its folder in corpus/
  void (*run)(bytes input);
};
std::span<const target> targets() noexcept;

inline void require(bool kept) {
  if (!kept) std::abort();
}

}  // namespace tandem::fuzz
