// The stub library that a toolkit has for linking: it has every function, and all of them fail.
// With TANDEM_OLD_DRIVER, a driver that is too old: it has only one function.

namespace {
constexpr int stub_library = 34;  // CUDA_ERROR_STUB_LIBRARY
}  // namespace

#define TANDEM_FUNCTION(member, name)                            \
  extern "C" __attribute__((visibility("default"))) int name() { \
    return stub_library;                                         \
  }
#ifdef TANDEM_OLD_DRIVER
TANDEM_FUNCTION(init, cuInit)
#else
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/cuda_functions.inc"
#endif
