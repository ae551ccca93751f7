// The same calls by NCCL and by Tandem's libnccl.so.2 inside one island, in turns, in the same
// processes: what handing a call over costs. Times of nccl-tests, which start a process for each
// library, differ by more than that from process to process.
//
// usage: nccl_calls TANDEM NCCL MAX_BYTES PROCESSES [CORES]...
// TANDEM, NCCL: the libraries' paths; PROCESSES: 1, or one for each GPU; CORES: of each process
// (2-3), as of taskset. Prints a line of JSON for each operation and size: medians over rounds of
// the time of a call, and of the ratio in a round. Built and run by bench/nccl, with CUDA's
// runtime.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20;
constexpr int rounds = 31, float32 = 7, sum = 0;
constexpr double round_us = 2000;
enum which { nccl, tandem };

struct unique_id {
  std::array<char, 128> bytes;
};
using comm = void*;

struct shared_state {
  std::atomic<int> arrived{0}, round{0}, calls{0};
  std::atomic<std::size_t> wrong_bytes{0};
  unique_id ids[2];
};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "nccl_calls: %s\n", what);
  std::exit(1);
}

void meet(shared_state& in, int processes) {
  const int round = in.round.load();
  if (in.arrived.fetch_add(1) + 1 == processes) {
    in.arrived.store(0);
    in.round.fetch_add(1);
    return;
  }
  while (in.round.load() == round) sched_yield();
}

void use_cores(const char* text) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const char* const to = std::strchr(text, '-');
  for (int core = std::atoi(text); core <= std::atoi(to != nullptr ? to + 1 : text); ++core)
    CPU_SET(core, &cores);
  require(sched_setaffinity(0, sizeof cores, &cores) == 0, "no such cores");
}

struct library {
  int (*get_unique_id)(unique_id*);
  int (*init_rank)(comm*, int, unique_id, int);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void*, void*, std::size_t, int, int, comm, cudaStream_t);
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, comm, cudaStream_t);
  int (*reduce)(const void*, void*, std::size_t, int, int, int, comm, cudaStream_t);
  int (*broadcast)(const void*, void*, std::size_t, int, int, comm, cudaStream_t);
  int (*gather)(const void*, void*, std::size_t, int, int, comm, cudaStream_t);
  int (*scatter)(const void*, void*, std::size_t, int, int, comm, cudaStream_t);
  int (*all_gather)(const void*, void*, std::size_t, int, comm, cudaStream_t);
  int (*all_to_all)(const void*, void*, std::size_t, int, comm, cudaStream_t);
  int (*send)(const void*, std::size_t, int, int, comm, cudaStream_t);
  int (*recv)(void*, std::size_t, int, int, comm, cudaStream_t);

  explicit library(const char* path) {
    void* const file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    require(file != nullptr, "a library cannot be opened");
    const auto find = [file](auto& into, const char* name) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(file, name));
      require(into != nullptr, name);
    };
    find(get_unique_id, "ncclGetUniqueId");
    find(init_rank, "ncclCommInitRank");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
    find(all_reduce, "ncclAllReduce");
    find(reduce_scatter, "ncclReduceScatter");
    find(reduce, "ncclReduce");
    find(broadcast, "ncclBroadcast");
    find(gather, "ncclGather");
    find(scatter, "ncclScatter");
    find(all_gather, "ncclAllGather");
    find(all_to_all, "ncclAlltoAll");
    find(send, "ncclSend");
    find(recv, "ncclRecv");
  }
};

struct rank {
  int number;
  comm comms[2];
  cudaStream_t stream;
  char *from, *into;
};

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

class process {
 public:
  process(const char* tandem_path, const char* nccl_path, shared_state& shared, int number,
          int processes, int ranks)
      : libraries_{library(nccl_path), library(tandem_path)},
        shared_(shared),
        number_(number),
        processes_(processes),
        ranks_(ranks) {
    const int own = ranks / processes;
    for (int i = 0; i < own; ++i) own_.push_back({number * own + i, {}, {}, nullptr, nullptr});
    for (rank& each : own_) {
      cudaSetDevice(each.number);
      require(cudaStreamCreateWithFlags(&each.stream, cudaStreamNonBlocking) == cudaSuccess &&
                  cudaMalloc(reinterpret_cast<void**>(&each.from), most_bytes) == cudaSuccess &&
                  cudaMalloc(reinterpret_cast<void**>(&each.into), most_bytes) == cudaSuccess,
              "no memory on a GPU");
      fill(each);
    }
    for (const which by : {nccl, tandem}) {
      const library& of = libraries_[by];
      if (number == 0) require(of.get_unique_id(&shared.ids[by]) == 0, "ncclGetUniqueId");
      meet(shared, processes);
      of.group_start();
      for (rank& each : own_) {
        cudaSetDevice(each.number);
        require(of.init_rank(&each.comms[by], ranks, shared.ids[by], each.number) == 0,
                "ncclCommInitRank");
      }
      require(of.group_end() == 0, "ncclCommInitRank");
    }
  }

  void time(const std::string& op, std::size_t bytes) {
    const std::size_t wrong = wrong_bytes(op, bytes);
    timed(nccl, op, bytes, 10);  // the first calls of a kind take longer
    const double one = timed(nccl, op, bytes, 10).total;
    if (number_ == 0) shared_.calls = std::clamp(static_cast<int>(round_us / one), 5, 400);
    meet(shared_, processes_);
    const int calls = shared_.calls;
    std::vector<double> total[2], launch[2], ratio, more;
    for (int round = 0; round < rounds; ++round) {
      spent found[2];
      for (int k = 0; k < 2; ++k) {
        const auto by = static_cast<which>((round + k) % 2);
        timed(by, op, bytes, 5);
        found[by] = timed(by, op, bytes, calls);
        total[by].push_back(found[by].total);
        launch[by].push_back(found[by].launch);
      }
      ratio.push_back(found[nccl].total / found[tandem].total);
      more.push_back(found[tandem].launch - found[nccl].launch);
    }
    if (number_ != 0) return;
    std::printf(
        "{\"program\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"processes\": %d, \"calls\": %d, "
        "\"nccl_us\": "
        "%.3f, \"tandem_us\": %.3f, \"ratio\": %.4f, \"nccl_launch_us\": %.3f, \"launch_more_us\": "
        "%.3f, \"wrong_bytes\": %zu}\n",
        op.c_str(), bytes, ranks_, processes_, calls, median(total[nccl]), median(total[tandem]),
        median(ratio), median(launch[nccl]), median(more), wrong);
    std::fflush(stdout);
  }

 private:
  /// A call, in microseconds: until all are complete, and of this thread.
  struct spent {
    double total, launch;
  };

  void fill(const rank& which) {
    std::vector<float> all(most_bytes / sizeof(float));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(which.number)) % 251);
    cudaMemcpy(which.from, all.data(), most_bytes, cudaMemcpyHostToDevice);
  }

  /// One of each rank of this process. `bytes`: of all blocks, if they are of ranks.
  void call(which by, const std::string& op, std::size_t bytes) {
    const library& of = libraries_[by];
    const std::size_t all = bytes / sizeof(float), block = all / static_cast<std::size_t>(ranks_);
    const bool are_several = own_.size() > 1 || op == "sendrecv";
    if (are_several) of.group_start();
    for (const rank& r : own_) {
      const comm over = r.comms[by];
      if (op == "all_reduce") of.all_reduce(r.from, r.into, all, float32, sum, over, r.stream);
      if (op == "reduce_scatter")
        of.reduce_scatter(r.from, r.into, block, float32, sum, over, r.stream);
      if (op == "reduce") of.reduce(r.from, r.into, all, float32, sum, 0, over, r.stream);
      if (op == "broadcast") of.broadcast(r.from, r.into, all, float32, 0, over, r.stream);
      if (op == "gather") of.gather(r.from, r.into, block, float32, 0, over, r.stream);
      if (op == "scatter") of.scatter(r.from, r.into, block, float32, 0, over, r.stream);
      if (op == "all_gather") of.all_gather(r.from, r.into, block, float32, over, r.stream);
      if (op == "alltoall") of.all_to_all(r.from, r.into, block, float32, over, r.stream);
      if (op == "sendrecv") {
        of.send(r.from, all, float32, (r.number + 1) % ranks_, over, r.stream);
        of.recv(r.into, all, float32, (r.number + ranks_ - 1) % ranks_, over, r.stream);
      }
    }
    if (are_several) of.group_end();
  }

  spent timed(which by, const std::string& op, std::size_t bytes, int calls) {
    meet(shared_, processes_);
    const double begun = now_us();
    for (int i = 0; i < calls; ++i) call(by, op, bytes);
    const double launched = now_us();
    for (const rank& each : own_)
      require(cudaStreamSynchronize(each.stream) == cudaSuccess, op.c_str());
    const double ended = now_us();
    return {(ended - begun) / calls, (launched - begun) / calls};
  }

  /// Where the libraries leave different data, on any rank.
  std::size_t wrong_bytes(const std::string& op, std::size_t bytes) {
    std::vector<char> found[2];
    for (const which by : {nccl, tandem}) {
      for (const rank& each : own_) cudaMemset(each.into, 0x5a, bytes);
      cudaDeviceSynchronize();
      timed(by, op, bytes, 1);
      for (const rank& each : own_) {
        found[by].resize(found[by].size() + bytes);
        cudaMemcpy(found[by].data() + found[by].size() - bytes, each.into, bytes,
                   cudaMemcpyDeviceToHost);
      }
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found[nccl].size(); ++i)
      wrong += found[nccl][i] != found[tandem][i];
    shared_.wrong_bytes += wrong;
    meet(shared_, processes_);
    const std::size_t before = std::exchange(reported_, shared_.wrong_bytes.load());
    return reported_ - before;
  }

  const library libraries_[2];
  shared_state& shared_;
  const int number_, processes_, ranks_;
  std::vector<rank> own_;
  std::size_t reported_ = 0;  ///< wrong bytes of earlier sizes
};

}  // namespace

int main(int count, char** words) {
  require(count >= 5, "usage: nccl_calls TANDEM NCCL MAX_BYTES PROCESSES [CORES]...");
  const std::size_t max_bytes =
      std::min<std::size_t>(std::strtoull(words[3], nullptr, 10), most_bytes);
  const int processes = std::atoi(words[4]);
  void* const at = mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(at != MAP_FAILED, "mmap");
  shared_state& shared = *new (at) shared_state;
  int number = 0;
  while (number + 1 < processes && fork() == 0) {  // each starts the next, before CUDA is used
    ++number;
  }
  if (count > 5 + number) use_cores(words[5 + number]);
  int ranks = 0;
  require(cudaGetDeviceCount(&ranks) == cudaSuccess && ranks >= 2, "there are not two GPUs");
  process here(words[1], words[2], shared, number, processes, ranks);
  for (const char* op : {"all_reduce", "reduce_scatter", "reduce", "all_gather", "broadcast",
                         "sendrecv", "alltoall", "gather", "scatter"}) {
    for (std::size_t bytes = 8; bytes <= max_bytes; bytes *= 2) here.time(op, bytes);
  }
  int status = 0;
  if (number + 1 < processes) wait(&status);
  std::_Exit(status == 0 ? 0 : 1);
}
