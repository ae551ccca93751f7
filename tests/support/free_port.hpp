#pragma once

#include <cstdint>

namespace tandem::test {

/// A TCP port of the loopback address that nobody held a moment ago.
std::uint16_t free_port();

}  // namespace tandem::test
