#pragma once

#include <memory>
#include <tandem/channel.hpp>
#include <tandem/memory.hpp>
#include <vector>

#include "support/coroutine_test.hpp"
#include "support/cuda/double.hpp"

namespace tandem::test {

/// Device memory that views take their parts of, so that one allocation carries many messages, as
/// those of training frameworks do. What there is no room for is allocated by itself.
class arena {
 public:
  explicit arena(std::size_t bytes, int device) : all_(bytes, memory_kind::cuda, device) {}
  /// Null where there is no room.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* which);

 private:
  struct part {
    std::size_t first, end;
  };
  const buffer all_;
  std::vector<part> taken_;  // in order
};

/// A channel whose users' host views are views of a device's memory below: what is sent is copied
/// there before, what was received from there after, whatever became of it. So a suite that knows
/// host memory alone tests views of devices, too.
///
/// @param device  -1: host views stay what they are, for an end of a pair without such views.
/// Says `host` as its only kind, as it takes no other; a view of another kind is one of a device
/// that is not there.
std::unique_ptr<channel> with_device_views(std::unique_ptr<channel> below, cuda_double& gpus,
                                           int device = 0, std::shared_ptr<arena> from = nullptr);

/// The GPUs of the test that is running, made when it first asks. When it ends, nothing may be left
/// on them.
cuda_double& gpus_of_this_test(const cuda_double::options& as = {});

/// Puts `pattern(bytes, seed)` there, without the device.
void write_pattern(cuda_double& gpus, const buffer& where, std::size_t bytes, std::uint64_t seed);
/// It is there.
void expect_pattern(cuda_double& gpus, const buffer& where, std::size_t bytes, std::uint64_t seed);

/// For what the device still works on.
awaitable<void> expect_waiting(background& part);

}  // namespace tandem::test
