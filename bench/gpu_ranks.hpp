#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/detail/nccl.hpp>

#include "harness.hpp"

/// Ranks as forked processes of one program, each with a GPU, and their NCCL calls.
namespace tandem::bench {

namespace nc = tandem::detail::nc;

/// State shared by the processes, mapped before the fork.
struct shared_state {
  std::atomic<int> arrived{0};
  std::atomic<int> round{0};
  std::atomic<std::uint64_t> wrong{0};
  nc::unique_id id{};
};

inline void barrier_wait(shared_state& in, int ranks) {
  const int round = in.round.load();
  if (in.arrived.fetch_add(1) + 1 == ranks) {
    in.arrived.store(0);
    in.round.fetch_add(1);
    return;
  }
  while (in.round.load() == round) sched_yield();
}

inline void check_nccl(const tandem::detail::nccl& lib, nc::result status, const char* call) {
  if (status == nc::success) return;
  std::fprintf(stderr, "%s: %s\n", call, lib.error_string(status));
  std::exit(1);
}

/// An object in memory shared with processes forked later.
template <class Shared>
Shared& make_shared() {
  void* const at =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(at != MAP_FAILED, "mmap");
  return *new (at) Shared;
}

/// NCCL operations of one rank on a stream of its own.
class nccl_rank {
 public:
  nccl_rank(const tandem::detail::nccl& lib, accelerator& device, int rank, int ranks,
            const nc::unique_id& id)
      : lib_(lib), device_(device), stream_(device), rank_(rank), ranks_(ranks) {
    device_.enter();
    check_nccl(lib_, lib_.init_rank(&comm_, ranks, id, rank), "ncclCommInitRank");
  }
  ~nccl_rank() {
    lib_.destroy(comm_);
    device_.leave();
  }

  void send(const mutable_view& v, int to) {
    check_nccl(lib_, lib_.send(v.data, v.bytes, nc::int8, to, comm_, stream_.get()), "ncclSend");
  }
  void recv(const mutable_view& v, int from) {
    check_nccl(lib_, lib_.recv(v.data, v.bytes, nc::int8, from, comm_, stream_.get()), "ncclRecv");
  }
  void begin() { lib_.group_start(); }
  void end() { check_nccl(lib_, lib_.group_end(), "ncclGroupEnd"); }
  void call(const std::string& op, const mutable_view& in, const mutable_view& out) {
    nc::result status = nc::success;
    if (op == "allreduce") {
      status = lib_.all_reduce(out.data, out.data, out.bytes / sizeof(float), nc::float32, nc::sum,
                               comm_, stream_.get());
    } else if (op == "allgather") {
      status = lib_.all_gather(in.data, out.data, in.bytes, nc::int8, comm_, stream_.get());
    } else if (op == "reducescatter") {
      status = lib_.reduce_scatter(in.data, out.data, out.bytes / sizeof(float), nc::float32,
                                   nc::sum, comm_, stream_.get());
    } else if (op == "broadcast") {
      const mutable_view& data = rank_ == 0 ? in : out;
      status = lib_.broadcast(data.data, data.data, data.bytes, nc::int8, 0, comm_, stream_.get());
    } else {
      std::fprintf(stderr, "no %s\n", op.c_str());
      std::exit(2);
    }
    check_nccl(lib_, status, op.c_str());
  }
  void finish() { device_.finish(stream_.get()); }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  const tandem::detail::nccl& lib_;
  accelerator& device_;
  tandem::device_stream stream_;
  int rank_, ranks_;
  nc::comm comm_ = nullptr;
};

}  // namespace tandem::bench
