#pragma once

#include "collectives/device_job.hpp"
#include "collectives/islands/island_call.hpp"
#include "doubles/hip/hip_on_cuda.hpp"
#include "doubles/nccl/double.hpp"
#include "support/device_mirror.hpp"

namespace tandem::test {

/// Ranks of one colour, each with a device of one vendor or on host memory.
struct rank_group {
  int ranks = 0;
  memory_kind kind = memory_kind::cuda;
  int colour = 0;
};
inline rank_group on_cuda(int ranks, int colour = 0) {
  return {ranks, memory_kind::cuda, colour};
}
inline rank_group on_hip(int ranks) {
  return {ranks, memory_kind::hip};
}
inline rank_group on_host(int ranks) {
  return {ranks, memory_kind::host};
}

/// A job of such ranks with doubles of devices and library. Ranks with AMD devices, which the
/// library's double does not support, each need an island of their own.
class group_rig {
 public:
  explicit group_rig(const std::vector<rank_group>& all, const settings& options = small_pieces())
      : members_(members_of(all)),
        devices(static_cast<int>(members_.size())),
        library(devices.gpus) {
    const auto ranks = static_cast<int>(members_.size());
    jobs = std::make_unique<device_job>(ranks, options, [](int) { return -1; });
    parts.resize(members_.size());
  }
  group_rig(const std::vector<rank_group>& all, const std::string& layout) : group_rig(all) {
    EXPECT_EQ(make(layout), "");
  }

  int size() const { return static_cast<int>(members_.size()); }
  island_member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  parallel_groups& of(int rank) { return *parts[static_cast<std::size_t>(rank)]; }
  /// Null for host memory.
  accelerator* device(int rank) {
    const island_member& mine = member(rank);
    return mine.kind == memory_kind::host ? nullptr : &accelerator_at(mine.kind, mine.device);
  }

  /// The first error of any rank; empty if there is none.
  std::string make(const std::string& layout) {
    return jobs->run([&](int r) { return make_one(r, layout); });
  }
  std::string check(const std::string& name, const island_call& c) {
    return jobs->run([&](int r) { return test::check(of(r).group(name), device(r), c); });
  }
  asio::awaitable<void> make_one(int rank, std::string layout) {
    const island_member mine = member(rank);
    parallel_layout read = parallel_layout::parse(layout);
    std::unique_ptr<parallel_groups> made =
        co_await parallel_groups::make(jobs->world(rank), std::move(read), mine);
    parts[static_cast<std::size_t>(rank)] = std::move(made);
  }

 private:
  static std::vector<island_member> members_of(const std::vector<rank_group>& all) {
    std::vector<island_member> result;
    for (const rank_group& each : all) {
      for (int i = 0; i < each.ranks; ++i) {
        const bool is_host = each.kind == memory_kind::host;
        const int device = is_host ? 0 : static_cast<int>(result.size());
        result.emplace_back(each.kind, device, each.colour);
      }
    }
    return result;
  }

  std::vector<island_member> members_;

 public:
  devices_with_kernels devices;
  hip_on_cuda hip;
  nccl_double library;
  std::unique_ptr<device_job> jobs;
  std::vector<std::unique_ptr<parallel_groups>> parts;
};

}  // namespace tandem::test
