#pragma once

#include "fuzz/targets.hpp"

namespace tandem::fuzz {

/// What a peer writes into shared memory, in front of a session with operations under way.
void shared_memory(bytes input);

}  // namespace tandem::fuzz
