#pragma once

#include <string>
#include <tandem/accelerator.hpp>
#include <vector>

namespace tandem::inventory {

/// A capability, present or not.
struct capability {
  std::string name;  ///< "peer copies to cuda:1"
  bool available = false;
  std::string why;  ///< if absent: what is missing and what to do; else details, may be empty
};

/// One accelerator.
struct device {
  accelerator_facts facts;
  std::vector<capability> capabilities;
};

/// One vendor.
struct vendor {
  memory_kind kind = memory_kind::cuda;
  std::string why_none;  ///< the reason if no device was found; else empty
  std::vector<device> devices;
  std::vector<capability> libraries;
};

/// The accelerators of this machine. Queries the drivers, which create a context (some hundred MB)
/// on each device for the lifetime of the process.
/// @par Errors `device_failed` where a driver cannot enumerate its devices.
std::vector<vendor> take_inventory();

/// Human-readable: a paragraph for each device, a reason for each missing capability.
std::string table(const std::vector<vendor>& all);

/// One device as one line of JSON, without end of line.
std::string json(const device& one);

}  // namespace tandem::inventory
