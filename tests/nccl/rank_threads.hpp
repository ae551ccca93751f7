#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "c/device_job.hpp"
#include "nccl/functions.hpp"
#include "support/environment_variable.hpp"

#define NCCL_OK(call) EXPECT_EQ(call, nccl_abi::success) << ncclGetLastError(nullptr)

namespace tandem::test {

/// One rank of a communicator of NCCL's interface, on a simulated GPU.
struct nccl_rank : device_rank {
  nccl_abi::comm comm = nullptr;
};

/// Runs ranks as threads of this process, each on a simulated GPU, over a simulated library of the
/// vendor; as one island, or each as an island of its own, also with short collectives by way of
/// pinned memory, or with short messages by kernels, which may be relayed.
class nccl_ranks {
 public:
  enum class islands {
    one,
    of_one_rank,
    of_one_rank_staged,
    of_one_rank_by_kernels,
    of_one_rank_relayed
  };

  nccl_ranks(int ranks, islands how) : ranks_(ranks), gpus(4), library(gpus.gpus) {
    ::setenv("TANDEM_VENDOR_LIBRARY", how == islands::one ? "1" : "0", 1);
    const bool is_staged = how == islands::of_one_rank_staged;
    ::setenv("TANDEM_STREAM_STAGING_BYTES", is_staged ? "64K" : "0", 1);
    const bool has_kernels = how == islands::of_one_rank_by_kernels;
    ::setenv("TANDEM_STREAM_KERNEL_BYTES", has_kernels ? "1M" : "0", 1);
    const bool is_relayed = how == islands::of_one_rank_relayed;
    ::setenv("TANDEM_STREAM_RELAY_BYTES", is_relayed ? "1M" : "0", 1);
  }
  ~nccl_ranks() {
    ::unsetenv("TANDEM_VENDOR_LIBRARY");
    ::unsetenv("TANDEM_STREAM_STAGING_BYTES");
    ::unsetenv("TANDEM_STREAM_KERNEL_BYTES");
    ::unsetenv("TANDEM_STREAM_RELAY_BYTES");
  }
  nccl_ranks(const nccl_ranks&) = delete;
  nccl_ranks& operator=(const nccl_ranks&) = delete;

  /// Every rank joins, does this, and destroys its communicator if it still has it.
  void run(const std::function<void(nccl_rank&)>& what) {
    nccl_abi::unique_id id;
    ASSERT_EQ(ncclGetUniqueId(&id), nccl_abi::success) << ncclGetLastError(nullptr);
    each([&](nccl_rank& me) {
      ASSERT_EQ(ncclCommInitRank(&me.comm, me.ranks, id, me.rank), nccl_abi::success)
          << ncclGetLastError(nullptr);
      what(me);
      const nccl_abi::result destroyed = ncclCommDestroy(me.comm);  // null is ignored
      EXPECT_EQ(destroyed, nccl_abi::success);
    });
  }
  /// Every rank does this, with its device current and without a communicator.
  void each(const std::function<void(nccl_rank&)>& what) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        nccl_rank me;
        me.rank = rank;
        me.ranks = ranks_;
        me.device = rank;
        me.gpu = &accelerator_at(memory_kind::cuda, rank);
        me.stream = device_stream(*me.gpu);
        me.gpu->enter();
        what(me);
        me.gpu->finish(me.stream.get());
        me.gpu->leave();
      });
    }
    for (std::thread& one : threads) one.join();
    close();
  }

 private:
  /// Runs what the event loop of this process still has to do for jobs that were left.
  void close() {
    c::progress& loop = c::progress::of_process({});
    for (int device = 0; device < 4; ++device) free_holds(loop, device);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (gpus.gpus.open() != cuda_double::objects{} && std::chrono::steady_clock::now() < limit) {
      loop.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// Memory of streams that waited is freed when the next one waits.
  static void free_holds(c::progress& loop, int device) {
    accelerator& gpu = accelerator_at(memory_kind::cuda, device);
    const device_stream stream(gpu);
    loop.run_now([&] {
      device_watch watch(loop.executor(), gpu);
      watch.hold(stream.get()).release();
      gpu.finish(stream.get());
    });
  }

  const int ranks_;
  const environment_variable loopback_{"NCCL_SOCKET_IFNAME", "=lo"};

 public:
  devices_with_kernels gpus;
  hip_on_cuda hip;
  nccl_double library;
};

using islands = nccl_ranks::islands;
inline std::string name_of_islands(const testing::TestParamInfo<islands>& of) {
  if (of.param == islands::one) return "Inside";
  if (of.param == islands::of_one_rank) return "Across";
  if (of.param == islands::of_one_rank_relayed) return "AcrossRelayed";
  return of.param == islands::of_one_rank_staged ? "AcrossStaged" : "AcrossByKernels";
}

inline float own(const nccl_rank& me) {
  return static_cast<float>(me.rank + 1);
}

inline void* at(const device_numbers& of) {
  return of.buffer().data;
}

}  // namespace tandem::test
