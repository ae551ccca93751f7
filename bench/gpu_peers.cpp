// Baselines for messages in device memory, one process per GPU: NCCL (--mode nccl), and bare copies
// by the copy engines without any protocol (--mode peer_copy, pinned_copy).
//
// NCCL calls are enqueued on a stream and the CPU spins until the stream has completed
// (cuStreamSynchronize), the completion check with the lowest latency.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "gpu_ranks.hpp"
#include "perf/checked_data.hpp"
#include "perf/operation.hpp"
#include "perf/record.hpp"
#include "perf/window.hpp"

namespace {

using tandem::accelerator;
using tandem::memory_kind;
using tandem::mutable_view;
using tandem::bench::barrier_wait;
using tandem::bench::check_nccl;
using tandem::bench::measurement;
using tandem::bench::nccl_rank;
using tandem::bench::plan;
using tandem::bench::shared_state;
namespace perf = tandem::perf;
using clock_type = std::chrono::steady_clock;

/// pingpong, or oneway with an acknowledgement, between ranks 0 and 1.
class pair_loop {
 public:
  pair_loop(nccl_rank& over, const plan& what, std::size_t bytes, perf::memory_location at)
      : over_(over),
        echo_(what.op == "pingpong"),
        out_(over.rank(), {echo_ || over.rank() == 0 ? what.depth : 1,
                           echo_ || over.rank() == 0 ? bytes : ack_bytes}),
        in_(1 - over.rank(), {echo_ || over.rank() != 0 ? what.depth : 1,
                              echo_ || over.rank() != 0 ? bytes : ack_bytes}),
        where_(at) {}

  void prepare(std::uint64_t epoch) {
    out_.fill(epoch, 0);
    in_.clear();
    where_.upload();
    for (const auto& m : out_.messages()) where_.of(m);
    for (const auto& m : in_.messages()) where_.of(m);
  }
  double iterate() {
    const clock_type::time_point start = clock_type::now();
    if (over_.rank() != 0) receive();
    over_.begin();
    for (const auto& m : out_.messages()) over_.send(where_.of(m), 1 - over_.rank());
    over_.end();
    if (over_.rank() == 0) receive();
    over_.finish();
    const std::chrono::duration<double, std::micro> took = clock_type::now() - start;
    return took.count() / (echo_ ? 2 : 1);
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch) {
    where_.download();
    return in_.wrong_bytes(epoch, 0);
  }

 private:
  static constexpr std::size_t ack_bytes = 8;
  void receive() {
    over_.begin();
    for (const auto& m : in_.messages()) over_.recv(where_.of(m), 1 - over_.rank());
    over_.end();
  }

  nccl_rank& over_;
  bool echo_;
  perf::window out_, in_;
  perf::device_mirror where_;
};

/// A collective over all ranks.
class collective_loop {
 public:
  collective_loop(nccl_rank& over, const plan& what, std::size_t bytes, perf::memory_location at)
      : over_(over),
        op_(what.op),
        data_(perf::make_data(*perf::find_operation(what.op),
                              {.rank = over.rank(), .ranks = over.ranks(), .bytes = bytes}),
              at) {}
  void prepare(std::uint64_t epoch) { data_.prepare(epoch); }
  double iterate(std::uint64_t epoch, bool last) {
    data_.before(epoch, 0, last);
    const mutable_view in = data_.input(), out = data_.output();
    const clock_type::time_point start = clock_type::now();
    over_.call(op_, in, out);
    over_.finish();
    const std::chrono::duration<double, std::micro> took = clock_type::now() - start;
    return took.count();
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch) { return data_.wrong_bytes(epoch, 0); }

 private:
  nccl_rank& over_;
  std::string op_;
  perf::checked_data data_;
};

struct outcome {
  std::vector<double> samples;
  std::uint64_t wrong = 0;
};

template <class Iterate, class Loop>
outcome run_loop(Loop& loop, Iterate iterate, const measurement& of, std::int64_t warmup,
                 shared_state& in, int ranks) {
  outcome result;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    loop.prepare(epoch);
    barrier_wait(in, ranks);
    iterate(epoch, true);
    result.wrong += loop.wrong_bytes(epoch);
  }
  loop.prepare(2);
  barrier_wait(in, ranks);
  for (std::int64_t i = 0; i < std::min(warmup, of.iters); ++i) iterate(2, false);
  barrier_wait(in, ranks);
  for (std::int64_t i = 0; i < of.iters; ++i) {
    result.samples.push_back(iterate(2, i + 1 == of.iters));
  }
  result.wrong += loop.wrong_bytes(2);
  return result;
}

int nccl_main(const plan& what, shared_state& in, int rank) {
  std::string why;
  const tandem::detail::nccl* const lib = tandem::detail::find_nccl(memory_kind::cuda, why);
  if (lib == nullptr) {
    if (rank == 0) std::fprintf(stderr, "gpu_peers: %s\n", why.c_str());
    return 1;
  }
  const perf::memory_location at = perf::memory_location_for("cuda", rank);
  accelerator& device = tandem::accelerator_at(at.kind, at.device);
  if (rank == 0) check_nccl(*lib, lib->get_unique_id(&in.id), "ncclGetUniqueId");
  barrier_wait(in, what.ranks);
  nccl_rank over(*lib, device, rank, what.ranks, in.id);
  const bool pair = what.op == "pingpong" || what.op == "oneway";
  for (const measurement& of : what.measurements) {
    const perf::operation& op = *perf::find_operation(what.op);
    const std::size_t bytes =
        perf::bytes_moved(op, of.bytes, what.ranks, op.reduces ? sizeof(float) : 1);
    outcome result;
    if (pair) {
      pair_loop loop(over, what, bytes, at);
      result = run_loop(
          loop, [&](std::uint64_t, bool) { return loop.iterate(); }, of, what.warmup, in,
          what.ranks);
    } else {
      collective_loop loop(over, what, bytes, at);
      result = run_loop(
          loop, [&](std::uint64_t epoch, bool last) { return loop.iterate(epoch, last); }, of,
          what.warmup, in, what.ranks);
    }
    in.wrong.fetch_add(result.wrong);
    barrier_wait(in, what.ranks);
    if (rank == 0) {
      tandem::bench::print_record(what, {bytes, of.iters}, "nccl", result.samples, in.wrong.load());
    }
    barrier_wait(in, what.ranks);
  }
  return in.wrong.load() == 0 ? 0 : 1;
}

/// Copies of one device's copy engine alone: from the other GPU, or from the host.
int copy_main(const plan& what, bool from_peer) {
  accelerator& device = tandem::accelerator_at(memory_kind::cuda, 0);
  if (from_peer && !device.can_access_peer(1)) {
    std::fprintf(stderr, "gpu_peers: cuda:0 does not reach cuda:1\n");
    return 1;
  }
  if (from_peer) device.enable_peer_access(1);
  const tandem::device_stream on(device);
  std::uint64_t total_wrong = 0;
  for (const measurement& of : what.measurements) {
    perf::aligned_memory host(of.bytes);
    perf::fill(host.bytes(), {0, 0, of.bytes}, 0);
    tandem::pinned_buffer pinned(device, of.bytes);
    std::memcpy(pinned.data(), host.bytes().data(), of.bytes);
    tandem::buffer into(of.bytes, memory_kind::cuda, 0);
    tandem::buffer source(from_peer ? of.bytes : 0, memory_kind::cuda, from_peer ? 1 : 0);
    const void* from = pinned.data();
    if (from_peer) {
      accelerator& other = tandem::accelerator_at(memory_kind::cuda, 1);
      const tandem::device_stream upload(other);
      other.copy(source.data(), pinned.data(), of.bytes, upload.get());
      other.finish(upload.get());
      from = source.data();
    }
    std::vector<double> samples;
    for (std::int64_t i = 0; i < of.iters + 3; ++i) {
      const clock_type::time_point start = clock_type::now();
      for (int k = 0; k < what.depth; ++k) device.copy(into.data(), from, of.bytes, on.get());
      device.finish(on.get());
      const std::chrono::duration<double, std::micro> took = clock_type::now() - start;
      if (i >= 3) samples.push_back(took.count());
    }
    perf::clear(host.bytes());
    device.copy(host.bytes().data(), into.data(), of.bytes, on.get());
    device.finish(on.get());
    const std::uint64_t wrong = perf::wrong_bytes(host.bytes(), {0, 0, of.bytes}, 0);
    tandem::bench::print_record(what, of, what.mode, samples, wrong);
    total_wrong += wrong;
  }
  return total_wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const plan what = tandem::bench::parse_plan(argc, argv);
    if (what.mode == "peer_copy" || what.mode == "pinned_copy") {
      return copy_main(what, what.mode == "peer_copy");
    }
    shared_state& in = tandem::bench::make_shared<shared_state>();
    return tandem::bench::fork_ranks(what.ranks,
                                     [&](int rank) { return nccl_main(what, in, rank); });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_peers: %s\n", e.what());
    return 1;
  }
}
