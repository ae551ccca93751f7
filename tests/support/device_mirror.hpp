#pragma once

#include <cstddef>
#include <memory>
#include <tandem/memory.hpp>
#include <vector>

#include "doubles/cuda/double.hpp"
#include "doubles/kernel_compiler_double.hpp"
#include "support/environment_variable.hpp"
#include "support/stream_kernels_on_host.hpp"
#include "support/temporary_folder.hpp"

namespace tandem::test {

/// Two simulated devices that run the library's kernels on the CPU, with a kernel compiler and a
/// cache of their own. Work is delayed randomly.
class devices_with_kernels {
 public:
  devices_with_kernels();
  /// Any number of devices, otherwise the same.
  explicit devices_with_kernels(int devices);
  explicit devices_with_kernels(cuda_double::options as);

  temporary_folder cache;
  environment_variable cache_variable{"XDG_CACHE_HOME", cache.path("").c_str()};
  kernel_compiler_double compiler;
  cuda_double gpus;
  stream_kernels_on_host kernels_that_wait{gpus};
};

/// Copies of one rank's host buffers in device memory.
class device_mirror {
 public:
  explicit device_mirror(int device) : device_(device) {}

  /// The device copy of a view; views inside of an earlier one are parts of its copy.
  mutable_view there(mutable_view here);
  const_view there(const_view here);
  /// Copies everything back to the host, and frees the device copies.
  void copy_back();

 private:
  struct copy {
    std::byte* here;
    buffer there;
  };
  const int device_;
  std::vector<copy> copies_;
};

}  // namespace tandem::test
