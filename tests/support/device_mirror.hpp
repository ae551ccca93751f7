#pragma once

#include <cstddef>
#include <memory>
#include <tandem/memory.hpp>
#include <vector>

#include "support/cuda/double.hpp"
#include "support/environment_variable.hpp"
#include "support/kernel_compiler_double.hpp"
#include "support/temporary_folder.hpp"

namespace tandem::test {

/// Two devices of the double on which the library's kernels run, as the processor runs them, with a
/// compiler that makes them and a cache of their own. Work is late by chance.
class devices_with_kernels {
 public:
  devices_with_kernels();
  /// So many, which are late by chance, as by default.
  explicit devices_with_kernels(int devices);
  explicit devices_with_kernels(cuda_double::options as);

  temporary_folder cache;
  environment_variable cache_variable{"XDG_CACHE_HOME", cache.path("").c_str()};
  kernel_compiler_double compiler;
  cuda_double gpus;
};

/// One rank's memory on a device in the place of its host memory: what a test has made on the host
/// is copied there, and back.
class device_mirror {
 public:
  explicit device_mirror(int device) : device_(device) {}

  /// The same bytes there. What lies inside of what was asked for before is a part of that.
  mutable_view there(mutable_view here);
  const_view there(const_view here);
  /// Copies all of it back, and forgets it.
  void bring_back();

 private:
  struct copy {
    std::byte* here;
    buffer there;
  };
  const int device_;
  std::vector<copy> copies_;
};

}  // namespace tandem::test
