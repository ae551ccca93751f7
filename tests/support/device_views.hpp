#pragma once

#include <memory>
#include <tandem/channel.hpp>
#include <tandem/memory.hpp>

#include "support/coroutine_test.hpp"
#include "support/cuda/double.hpp"
#include "support/other_views.hpp"

namespace tandem::test {

/// An arena in the memory of a device.
std::shared_ptr<arena> device_arena(std::size_t bytes, int device);

/// A channel whose users' host views are views of a device's memory below: what is sent is copied
/// there before, what was received from there after, whatever became of it. So a suite that knows
/// host memory alone tests views of devices, too.
///
/// @param device  -1: host views stay what they are, for an end of a pair without such views.
/// @param from    null, or where it has no room: each view is an allocation of its own.
/// A view of another kind than `host` is one of a device that is not there.
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
