#pragma once

#include <string>
#include <string_view>

namespace tandem::detail {

/// The kernel's side of AMD's compute: what opening this file fails with. 0: it can be opened.
int kernel_refuses(const char* path = "/dev/kfd");

/// Why HIP shows no device, and what to do.
/// @param said  "hipInit returned hipErrorNoDevice"
/// @param failure  of `kernel_refuses`
std::string why_no_device(std::string_view said, int failure);

}  // namespace tandem::detail
