#pragma once

#include "fuzz/targets.hpp"

namespace tandem::fuzz {

/// A peer's writes into shared memory, read by a session with pending operations.
void shared_memory(bytes input);

}  // namespace tandem::fuzz
