#pragma once

#include <map>
#include <string>

#include "reduce/kernels.hpp"

namespace tandem::test {

/// Device kernels executed by a CPU, one thread of the grid after the other.
using kernel_on_host = void (*)(unsigned blocks, unsigned threads, void** arguments);

/// By their names on devices. Arguments are pointers to each, addresses those of the host.
const std::map<std::string, kernel_on_host>& kernels_on_host();

/// The same kernels as a table for the tests of CPU kernels, with a grid that is smaller than most
/// data.
const detail::kernel_table& device_kernel_table();

}  // namespace tandem::test
