#include "model/kernels/built_for.hpp"

namespace tandem::train::kernels {

constinit const instruction_sets built_for = {
#ifdef __AVX2__
    .avx2 = true,
#else
    .avx2 = false,
#endif
#ifdef __AVX512F__
    .avx512 = true,
#else
    .avx512 = false,
#endif
};

}  // namespace tandem::train::kernels
