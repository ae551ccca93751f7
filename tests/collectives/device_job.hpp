#pragma once

#include <tandem/channels.hpp>

#include "collectives/job.hpp"
#include "support/device_mirror.hpp"

namespace tandem::test {

/// Which device of the double a rank's memory is on; less than 0: the host.
using device_of_rank = int (*)(int rank);

inline int every_other_device(int rank) {
  return rank % 2;
}
/// Ranks of one call need not be alike.
inline int device_or_host(int rank) {
  return rank % 3 - 1;
}

/// Of each rank; null on the host.
struct rank_mirrors {
  std::vector<std::unique_ptr<device_mirror>> mirrors;
};

/// A job whose channels carry device memory, and whose ranks' views are there. @pre devices live.
class device_job : private rank_mirrors, public job {  // the loop goes before the memory
 public:
  device_job(int ranks, const settings& options, device_of_rank where) : job(ranks, options) {
    take_devices(options, where);
  }
  /// Over channels of this kind.
  device_job(const fabric_kind& over, int ranks, const settings& options, device_of_rank where)
      : job(over, ranks, options) {
    take_devices(options, where);
  }
  /// Where a rank has this view; on the device its bytes are those of when it was first asked for.
  template <class View>
  View there(int rank, View here) {
    const auto& mirror = mirrors[static_cast<std::size_t>(rank)];
    return mirror ? View(mirror->there(here)) : here;
  }
  /// To the host, and forgotten.
  void bring_back() {
    for (const auto& each : mirrors) {
      if (each) each->bring_back();
    }
  }

 private:
  void take_devices(const settings& options, device_of_rank where) {
    worlds.clear();
    for (auto& each : fabrics) each = devices::make_fabric(std::move(each), options);
    for (const auto& each : fabrics)
      worlds.push_back(std::make_unique<communicator>(*each, options));
    for (int r = 0; r < size(); ++r) {
      mirrors.push_back(where(r) < 0 ? nullptr : std::make_unique<device_mirror>(where(r)));
    }
  }
};

}  // namespace tandem::test
