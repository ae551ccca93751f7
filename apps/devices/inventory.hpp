#pragma once

#include <string>
#include <tandem/accelerator.hpp>
#include <vector>

namespace tandem::inventory {

/// Something that may be possible here.
struct ability {
  std::string name;  ///< "peer copies to cuda:1"
  bool there = false;
  std::string why;  ///< of a no: what is missing and what to do; of a yes: details, may be empty
};

/// One accelerator.
struct device {
  accelerator_facts facts;
  std::vector<ability> abilities;
};

/// One vendor.
struct vendor {
  memory_kind kind = memory_kind::cuda;
  std::string why_none;  ///< empty: there are some
  std::vector<device> devices;
  std::vector<ability> libraries;
};

/// What is on this machine. Asks the drivers, which takes a context (some hundred MB) on each
/// device for as long as the process lives.
/// @par Errors `device_failed` where a driver does not even say what it has.
std::vector<vendor> take();

}  // namespace tandem::inventory
