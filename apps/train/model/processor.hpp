#pragma once

namespace tandem::train {

/// Null if this CPU can run the model's kernels; otherwise a line that names the missing
/// instruction sets and what to do. Call before the first basic_stage is constructed: without them
/// the kernels raise an illegal instruction.
const char* unsupported_processor();

}  // namespace tandem::train
