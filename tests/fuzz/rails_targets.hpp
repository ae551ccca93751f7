#pragma once

#include "fuzz/targets.hpp"

namespace tandem::fuzz {

/// The bytes of a lane, behind a core with operations under way.
void lanes(bytes input);
/// What a rank says of its rails.
void published_rails(bytes input);

}  // namespace tandem::fuzz
