#pragma once

#include <string>
#include <string_view>

namespace tandem::detail {

/// The errno of opening the device file of the amdgpu compute driver. 0: it can be opened.
int kernel_refuses(const char* path = "/dev/kfd");

/// Why HIP reports no device, and what to do.
/// @param message  "hipInit returned hipErrorNoDevice"
/// @param failure  of `kernel_refuses`
std::string why_no_device(std::string_view said, int failure);

}  // namespace tandem::detail
