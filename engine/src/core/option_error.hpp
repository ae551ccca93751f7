#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <utility>

namespace tandem::detail {

inline constexpr std::size_t kilo = 1024, mega = kilo * 1024, giga = mega * 1024;

/// The error for an invalid option value.
inline error bad(std::string_view value, std::string_view what, std::string advice = {}) {
  return error(errc::bad_option, fmt::format("{}: {}", value, what), std::move(advice));
}

}  // namespace tandem::detail
