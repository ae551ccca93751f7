#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/error.hpp>

#include "doubles/cuda/double.hpp"
#include "doubles/hip/hip_on_cuda.hpp"
#include "support/coroutine_test.hpp"

namespace tandem::test {

namespace amd = detail::amd;

inline accelerator& hip_at(int device) {
  return accelerator_at(memory_kind::hip, device);
}

inline std::optional<error> refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const error& failed) {
    return failed;
  }
  return std::nullopt;
}

/// HIP over GPUs in memory. HIP's last error and the thread's current device belong to the user:
/// the destructor checks that they are unchanged.
struct hip_rig {
  explicit hip_rig(cuda_double::options as = {}, hip_on_cuda::options hip_options = {})
      : gpus(std::move(as)), hip(std::move(hip_options)) {}
  ~hip_rig() {
    int device = -1;
    hip.table().get_device(&device);
    EXPECT_EQ(device, mine) << "the thread's device has changed";
    EXPECT_EQ(hip.table().last_error(), amd::success) << "an error is left to the user";
    hip.table().set_device(0);
  }
  hip_rig(const hip_rig&) = delete;
  hip_rig& operator=(const hip_rig&) = delete;

  /// Makes this the thread's current device.
  void use(int device) {
    mine = device;
    EXPECT_EQ(hip.table().set_device(device), amd::success);
  }

  cuda_double gpus;
  hip_on_cuda hip;
  int mine = 0;
};

}  // namespace tandem::test
