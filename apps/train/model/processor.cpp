#include "model/processor.hpp"

#include "model/kernels/built_for.hpp"

namespace tandem::train {

const char* unsupported_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (kernels::built_for.avx2 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
    return "the trainer was built for CPUs with AVX2 and FMA, which this CPU lacks: build it with "
           "-DTANDEM_TRAINER_ARCH=";
  if (kernels::built_for.avx512 && !__builtin_cpu_supports("avx512f"))
    return "the trainer was built for CPUs with AVX-512, which this CPU lacks: build it with "
           "-DTANDEM_TRAINER_ARCH=x86-64-v3";
#endif
  return nullptr;
}

}  // namespace tandem::train
