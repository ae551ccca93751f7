#pragma once

#include <map>
#include <memory>
#include <string>

#include "doubles/hip/translation.hpp"

namespace tandem::test {

/// CUDA devices, simulated or real, as AMD GPUs: while it lives, `find_hip` returns translating
/// functions, so that all code for HIP devices runs without an AMD GPU. One at a time; CUDA's
/// double, if any, must outlive it. Usable from any thread.
class hip_on_cuda {
 public:
  using options = translation::device_profile;

  explicit hip_on_cuda(options as = {});
  ~hip_on_cuda();
  hip_on_cuda(const hip_on_cuda&) = delete;
  hip_on_cuda& operator=(const hip_on_cuda&) = delete;

  /// The functions, which a test may change.
  detail::hip& table() noexcept { return table_; }
  /// The n-th call from now (1: the next) of this function returns this. By its exported name.
  static void fail(const std::string& function, int at_call, detail::amd::result with);

 private:
  detail::hip table_;
};

}  // namespace tandem::test
