#pragma once

#include "collectives/device_job.hpp"
#include "collectives/islands/island_call.hpp"
#include "support/device_mirror.hpp"
#include "support/nccl/double.hpp"

namespace tandem::test {

/// A job of ranks with a device each, divided into islands of one colour, whose library is the
/// double.
class island_rig {
 public:
  explicit island_rig(std::vector<int> colours)
      : colours_(std::move(colours)), devices(options_for(colours_.size())), library(devices.gpus) {
    const auto ranks = static_cast<int>(colours_.size());
    jobs = std::make_unique<device_job>(ranks, small_pieces(), [](int rank) { return rank; });
    parts.resize(colours_.size());
    EXPECT_EQ(jobs->run([this](int r) { return make(r); }), "");
  }

  int size() const { return static_cast<int>(colours_.size()); }
  islands& of(int rank) { return *parts[static_cast<std::size_t>(rank)]; }
  accelerator& device(int rank) { return accelerator_at(memory_kind::cuda, rank); }

  /// What is wrong on any rank; nothing: all is well.
  std::string check(const island_call& c) {
    return jobs->run(
        [this, &c](int r) { return test::check(of(r), jobs->world(r), device(r), c); });
  }
  /// How one rank's call ends that no other rank makes.
  error_code code_of(int rank, asio::awaitable<void> call) {
    std::vector<asio::awaitable<void>> one;
    one.push_back(std::move(call));
    jobs->start([&](int r) { return r == rank ? std::move(one[0]) : nothing(); });
    EXPECT_TRUE(jobs->finish());
    return jobs->code(rank);
  }
  static asio::awaitable<void> nothing() { co_return; }

 private:
  static cuda_double::options options_for(std::size_t devices) {
    cuda_double::options as;
    as.devices = static_cast<int>(devices);
    as.most_delay = std::chrono::microseconds(20);
    return as;
  }
  asio::awaitable<void> make(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const island_member mine(memory_kind::cuda, rank, colours_[r]);
    std::unique_ptr<islands> made = co_await islands::make(jobs->world(rank), mine);
    parts[r] = std::move(made);
  }

  const std::vector<int> colours_;

 public:
  devices_with_kernels devices;
  nccl_double library;
  std::unique_ptr<device_job> jobs;
  std::vector<std::unique_ptr<islands>> parts;
};

}  // namespace tandem::test
