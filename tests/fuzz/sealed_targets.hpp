#pragma once

#include "fuzz/targets.hpp"

namespace tandem::fuzz {

/// Sealed records that somebody changes, cuts, repeats and mixes with his own on their way.
void records(bytes input);

}  // namespace tandem::fuzz
