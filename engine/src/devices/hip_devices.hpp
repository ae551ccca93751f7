#pragma once

#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/detail/hip.hpp>
#include <vector>

namespace tandem::devices {

/// All devices that HIP reports, in its order (HIP applies HIP_VISIBLE_DEVICES).
/// @par Errors `device_failed` where HIP cannot count or describe them.
std::vector<std::unique_ptr<accelerator>> hip_devices(const detail::hip& driver);

}  // namespace tandem::devices
