#pragma once

namespace tandem::train::kernels {

/// The instruction sets that the kernels were compiled with. Plain data: reading it uses none of
/// them.
struct instruction_sets {
  bool avx2;
  bool avx512;
};
extern const instruction_sets built_for;

}  // namespace tandem::train::kernels
