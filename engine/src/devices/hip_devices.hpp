#pragma once

#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/detail/hip.hpp>
#include <vector>

namespace tandem::devices {

/// All that HIP shows (HIP_VISIBLE_DEVICES is its own affair), in its order.
/// @par Errors `device_failed` where it refuses to count or to name them.
std::vector<std::unique_ptr<accelerator>> hip_devices(const detail::hip& driver);

}  // namespace tandem::devices
