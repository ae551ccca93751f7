// Not for users: what the engine and the rooms on it share.
#pragma once

#include <chrono>
#include <string>

namespace tandem::detail {

/// A time as every error, log line and report of this library writes it: "30 s", "0.25 s", at most
/// three significant digits; below a millisecond "less than 0.001 s".
std::string to_text(std::chrono::nanoseconds time);

}  // namespace tandem::detail
