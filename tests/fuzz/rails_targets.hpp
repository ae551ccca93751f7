#pragma once

#include "fuzz/targets.hpp"

namespace tandem::fuzz {

/// The byte stream of a lane into a core with pending operations.
void lanes(bytes input);
/// The published rails of a rank.
void published_rails(bytes input);

}  // namespace tandem::fuzz
