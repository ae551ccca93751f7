#include <gtest/gtest.h>

#include <chrono>
#include <tandem/detail/blocking_call.hpp>
#include <thread>

#include "accelerator/cuda_device.hpp"
#include "doubles/cuda/double.hpp"
#include "engine/accelerator/accelerator_rig.hpp"

namespace tandem::test {
namespace {

using namespace std::chrono_literals;

TEST(cuda_context, device_that_does_not_answer_is_named) {
  cuda_double gpus;
  static detail::cuda slow;
  slow = gpus.table();
  slow.retain_primary = [](detail::cu::context*, detail::cu::device) {
    std::this_thread::sleep_for(200ms);
    return detail::cu::success;
  };
  devices::cuda_device device(slow, 1);
  const std::chrono::milliseconds before = detail::driver_timeout();
  detail::set_driver_timeout(10ms);
  expect_error(failure_of_call([&] { device.allocate(8); }), errc::timed_out,
               {"cuDevicePrimaryCtxRetain of", "no answer within 0.01 s"});
  detail::set_driver_timeout(before);
  while (detail::abandoned_calls() > 0) std::this_thread::sleep_for(1ms);
}

}  // namespace
}  // namespace tandem::test
