#include "doubles/nccl/double.hpp"

#include <gtest/gtest.h>

#include "doubles/nccl/world.hpp"

namespace tandem::test {

nccl_double::nccl_double(cuda_double& devices) : world_(std::make_unique<nccl::world>(devices)) {}

nccl_double::~nccl_double() {
  world_->end_initializations();
  const std::size_t left = open();
  if (left != 0) ADD_FAILURE() << "NCCL double: left open: " << left;
  for (const auto& each : world_->faults) {
    ADD_FAILURE() << "NCCL double: never called: " << each.function;
  }
}

void nccl_double::fail(const std::string& function, int at_call, nc::result with) {
  const cuda::world::lock held(cuda::world::now()->mutex);
  world_->faults.push_back({function, at_call, with});
}

void nccl_double::hang_initializations() {
  const cuda::world::lock held(cuda::world::now()->mutex);
  world_->is_hanging = true;
}

void nccl_double::lack_blocks() {
  world_->lack_blocks();
}

void nccl_double::hang_mismatches() {
  const cuda::world::lock held(cuda::world::now()->mutex);
  world_->is_mismatch_hanging = true;
}

std::size_t nccl_double::calls(const std::string& function) const {
  const cuda::world::lock held(cuda::world::now()->mutex);
  const auto found = world_->counts.find(function);
  return found == world_->counts.end() ? 0 : found->second;
}

std::size_t nccl_double::open() const {
  const cuda::world::lock held(cuda::world::now()->mutex);
  std::size_t all = world_->ends.size();
  for (const auto& [handle, each] : world_->ends) all += each->ops.size();
  return all;
}

}  // namespace tandem::test
