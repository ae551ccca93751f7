#pragma once

#include <string>
#include <string_view>
#include <tandem/detail/hip.hpp>

namespace tandem::devices {

/// Compilation target ("gfx942") of the GPU at this PCI address; empty: HSA does not report it.
/// HIP reports it only in a structure whose layout depends on its version, while HSA's numbers are
/// fixed by its specification. Partitions of one GPU differ in the PCI function only and have one
/// architecture.
/// @param pci  "0000:3b:00.0"
std::string architecture_at(const detail::hsa& from, std::string_view pci);

/// Whether device memory can be exported as dma-buf descriptors, for NICs.
bool exports_dma_buf(const detail::hsa& from);

}  // namespace tandem::devices
