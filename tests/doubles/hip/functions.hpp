#pragma once

#include <tandem/detail/hip.hpp>
#include <type_traits>

// HIP's functions by their real names, implemented on CUDA: in a test's own table, and exported by
// a libamdhip64 that programs find through the loader's path. A definition whose signature differs
// from the table's does not compile.

#pragma GCC visibility push(default)
extern "C" {
#define TANDEM_FUNCTION(member, name) \
  std::remove_pointer_t<decltype(tandem::detail::hip::member)> name;
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/hip_functions.inc"
#define TANDEM_FUNCTION(member, name) \
  std::remove_pointer_t<decltype(tandem::detail::hsa::member)> name;
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/hsa_functions.inc"
}
#pragma GCC visibility pop
