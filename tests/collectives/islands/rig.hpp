#pragma once

#include <limits>

#include "collectives/device_job.hpp"
#include "collectives/islands/island_call.hpp"
#include "doubles/hip/hip_on_cuda.hpp"
#include "doubles/nccl/double.hpp"
#include "support/device_mirror.hpp"

namespace tandem::test {

/// A job of ranks with a device each, divided into islands by colour, whose library is the double.
/// Ranks from `first_of_amd` on have AMD devices, which the double's library does not support: each
/// needs an island of its own.
class island_rig {
 public:
  explicit island_rig(std::vector<int> colours, int first_of_amd = std::numeric_limits<int>::max())
      : colours_(std::move(colours)),
        first_of_amd_(first_of_amd),
        devices(static_cast<int>(colours_.size())),
        library(devices.gpus) {
    const auto ranks = static_cast<int>(colours_.size());
    jobs = std::make_unique<device_job>(ranks, small_pieces(), [](int rank) { return rank; });
    parts.resize(colours_.size());
    EXPECT_EQ(jobs->run([this](int r) { return make(r); }), "");
  }

  int size() const { return static_cast<int>(colours_.size()); }
  communicator& of(int rank) { return *parts[static_cast<std::size_t>(rank)]; }
  accelerator& device(int rank) { return accelerator_at(kind(rank), rank); }

  /// The first error of any rank; empty if there is none.
  std::string check(const island_call& c) {
    return jobs->run([this, &c](int r) { return test::check(of(r), &device(r), c); });
  }
  /// Result of a call that only this rank makes.
  error_code code_of(int rank, asio::awaitable<void> call) {
    std::vector<asio::awaitable<void>> one;
    one.push_back(std::move(call));
    jobs->start([&](int r) { return r == rank ? std::move(one[0]) : nothing(); });
    EXPECT_TRUE(jobs->finish());
    return jobs->code(rank);
  }

 private:
  asio::awaitable<void> make(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const island_member mine(kind(rank), rank, colours_[r]);
    std::unique_ptr<communicator> made = co_await make_island_communicator(jobs->world(rank), mine);
    parts[r] = std::move(made);
  }

  memory_kind kind(int rank) const {
    return rank < first_of_amd_ ? memory_kind::cuda : memory_kind::hip;
  }

  const std::vector<int> colours_;
  const int first_of_amd_;

 public:
  devices_with_kernels devices;
  hip_on_cuda hip;
  nccl_double library;
  std::unique_ptr<device_job> jobs;
  std::vector<std::unique_ptr<communicator>> parts;
};

}  // namespace tandem::test
