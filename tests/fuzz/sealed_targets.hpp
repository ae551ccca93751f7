#pragma once

#include "fuzz/targets.hpp"

namespace tandem::fuzz {

/// Sealed records that are changed, truncated, repeated and mixed with others in transit.
void records(bytes input);

}  // namespace tandem::fuzz
