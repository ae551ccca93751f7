#pragma once

namespace tandem::train {

/// Null when this processor can run the model's kernels; otherwise a line that says what it lacks
/// and what to do. Ask before the first basic_stage is made: on a processor that lacks it, kernels
/// end in an illegal instruction.
const char* unsupported_processor();

}  // namespace tandem::train
