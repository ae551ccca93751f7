// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <chrono>
#include <string>

namespace tandem::detail {

/// A duration in the format of all errors, log lines and reports: "30 s", "0.25 s", at most three
/// significant digits; below a millisecond "less than 0.001 s".
std::string to_text(std::chrono::nanoseconds time);

}  // namespace tandem::detail
