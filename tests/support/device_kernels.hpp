#pragma once

#include <map>
#include <string>

#include "reduce/kernels.hpp"

namespace tandem::test {

/// The kernels for devices as the processor runs them, each thread of the grid after the other.
using kernel_on_host = void (*)(unsigned blocks, unsigned threads, void** arguments);

/// By the names that devices know them by. Arguments are pointers to each, addresses the host's.
const std::map<std::string, kernel_on_host>& kernels_on_host();

/// The same as tests of the processor's kernels call them, with a grid that is smaller than most
/// data.
const detail::kernel_table& device_kernel_table();

}  // namespace tandem::test
