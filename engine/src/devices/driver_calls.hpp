#pragma once

#include <string>
#include <string_view>
#include <tandem/accelerator.hpp>

namespace tandem::devices {

/// What a driver said of a call, in words.
struct refusal {
  std::string_view call;  ///< "cuMemAlloc(4096 bytes)"
  std::string name;       ///< "CUDA_ERROR_OUT_OF_MEMORY"
  std::string text;       ///< "out of memory"
  std::string_view advice;
};

/// "cuMemAlloc(4096 bytes) on cuda:0 (NVIDIA H200): CUDA_ERROR_OUT_OF_MEMORY: out of memory".
error refused(const refusal& said, std::string_view on);

/// Of the host, for a device at this place; -1: unknown.
int numa_node_of(const std::string& pci);

/// Throws in a child of the process that first called it. @param on  for the text
void refuse_after_fork(std::string_view on);

/// 16 bytes as 32 hexadecimal digits.
std::string hexadecimal(const char* bytes);

std::string lower_case(std::string text);

}  // namespace tandem::devices
