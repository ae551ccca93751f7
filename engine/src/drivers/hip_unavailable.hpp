#pragma once

#include <string>
#include <string_view>

namespace tandem::detail {

/// The errno of opening the device file of the amdgpu compute driver. 0: it can be opened.
int kfd_open_error(const char* path = "/dev/kfd");

/// Why HIP reports no device, and what to do.
/// @param message  "hipInit returned hipErrorNoDevice"
/// @param failure  of `kfd_open_error`
std::string no_device_reason(std::string_view message, int failure);

}  // namespace tandem::detail
