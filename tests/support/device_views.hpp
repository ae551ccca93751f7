#pragma once

#include <memory>
#include <tandem/channel.hpp>
#include <tandem/memory.hpp>

#include "doubles/cuda/double.hpp"
#include "support/coroutine_test.hpp"
#include "support/other_views.hpp"

namespace tandem::test {

/// An arena in device memory.
std::shared_ptr<arena> device_arena(std::size_t bytes, int device);

/// A channel that replaces its users' host views by views of device memory: data to send is copied
/// there before, received data from there after, whatever the result. So a suite that knows only
/// host memory tests device views.
///
/// @param device  -1: host views are not replaced, for an end of a pair without device views.
/// @param from    null, or where it is full: each view is an allocation of its own.
/// A view of another kind than `host` becomes one of a device that does not exist.
std::unique_ptr<channel> with_device_views(std::unique_ptr<channel> below, cuda_double& gpus,
                                           int device = 0, std::shared_ptr<arena> from = nullptr);

/// The GPUs of the running test, created on first use. Objects left open at its end fail the test.
cuda_double& gpus_of_this_test(const cuda_double::options& as = {});

/// Writes `pattern(bytes, seed)` there, without the device.
void write_pattern(cuda_double& gpus, const buffer& where, std::size_t bytes, std::uint64_t seed);
/// Expects that pattern.
void expect_pattern(cuda_double& gpus, const buffer& where, std::size_t bytes, std::uint64_t seed);

/// Expects that the operation is not complete, because the device still uses its view.
awaitable<void> expect_waiting(background& part);

}  // namespace tandem::test
