#pragma once

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "c/device_job.hpp"

namespace tandem::test {

/// The ranks are islands of their own.
struct staged_jobs : device_jobs {
  explicit staged_jobs(std::vector<int> devices, int first_of_amd = std::numeric_limits<int>::max())
      : device_jobs(std::move(devices), first_of_amd) {
    separate_islands();
  }
  void run(const std::function<void(device_rank&)>& what, const char* max_bytes = "64K") {
    device_jobs::run(what,
                     {"stream-staging-bytes", max_bytes, "stream-kernel-bytes", "0", nullptr});
  }
};

}  // namespace tandem::test
