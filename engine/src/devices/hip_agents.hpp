#pragma once

#include <string>
#include <string_view>
#include <tandem/detail/hip.hpp>

namespace tandem::devices {

/// What kernels are compiled for ("gfx942") on the GPU at this place of the PCI bus; empty: HSA
/// does not say. HIP itself says it only in a structure whose layout depends on the version, while
/// HSA's numbers are those of its specification. The partitions of one GPU, which differ in the
/// function, are of one architecture.
/// @param pci  "0000:3b:00.0"
std::string architecture_at(const detail::hsa& from, std::string_view pci);

/// Descriptors for NICs can be had.
bool exports_dma_buf(const detail::hsa& from);

}  // namespace tandem::devices
