// Slow-down of a compute kernel on each of two GPUs during transfers from one to the other: --mode
// tandem (copy engines) or nccl (kernels of its own). Each rank times the kernel alone, then during
// continuous transfers, then alone again.
//
// The kernel fills every multiprocessor and accesses no memory: a slow-down comes from other
// kernels on the multiprocessors.

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstring>
#include <tandem/async.hpp>
#include <tandem/detail/kernel_compiler.hpp>
#include <thread>

#include "gpu_job.hpp"

namespace {

namespace asio = boost::asio;
using asio::awaitable;
using tandem::accelerator;
using tandem::memory_kind;
using tandem::mutable_view;
using tandem::bench::barrier_wait;
using tandem::bench::messages;
using tandem::bench::plan;
using tandem::bench::shared_state;
using clock_type = std::chrono::steady_clock;

constexpr int ranks = 2;
constexpr const char* kernel_source = R"(
extern "C" __global__ void busy(float* into, int rounds) {
  float a = threadIdx.x, b = blockIdx.x;
  for (int i = 0; i < rounds; ++i) {
    a = a * 1.0001f + 0.5f;
    b = b * 0.9999f + a;
  }
  if (a + b == 12345.0f) *into = a;
}
)";
constexpr unsigned threads = 256, blocks_per_multiprocessor = 16;
constexpr int rounds = 100'000;

/// State shared by the processes in addition to `shared_state`.
struct progress {
  std::atomic<long> windows{0};        ///< started by rank 0
  std::atomic<bool> has_ended{false};  ///< rank 0 starts no more
  std::atomic<int> computed{0};        ///< ranks that have finished timing
  std::atomic<int> port{0};
  double us[ranks][2] = {};  ///< kernel time per rank, alone and during transfers
};

class busy_kernel {
 public:
  explicit busy_kernel(accelerator& on)
      : on_(on), stream_(on), word_(sizeof(float), on.kind(), on.device()) {
    std::string why;
    const auto* const by = tandem::detail::find_kernel_compiler(on.kind(), why);
    if (by == nullptr) throw tandem::error(tandem::errc::device_failed, why);
    tandem::detail::kernel_compiler::program made = nullptr;
    const std::string architecture = "--gpu-architecture=" + on.facts().architecture;
    const char* const option = architecture.c_str();
    std::size_t bytes = 0;
    if (by->create(&made, kernel_source, "busy", 0, nullptr, nullptr) != 0 ||
        by->compile(made, 1, &option) != 0 || by->code_bytes(made, &bytes) != 0) {
      throw tandem::error(tandem::errc::device_failed, "the kernel was not compiled");
    }
    std::string code(bytes, '\0');
    by->code(made, code.data());
    by->destroy(&made);
    module_ = on.load(code.data());
    kernel_ = on.find(module_, "busy");
  }
  ~busy_kernel() { on_.unload(module_); }
  busy_kernel(const busy_kernel&) = delete;
  busy_kernel& operator=(const busy_kernel&) = delete;

  /// Time of one kernel, the median of `count` runs.
  double time_us(std::int64_t count) {
    std::vector<double> samples;
    for (std::int64_t i = 0; i < count + 3; ++i) {
      void* at = word_.data();
      int rounds_argument = rounds;
      void* arguments[] = {&at, &rounds_argument};
      const unsigned blocks =
          static_cast<unsigned>(on_.facts().multiprocessors) * blocks_per_multiprocessor;
      const clock_type::time_point start = clock_type::now();
      on_.launch(kernel_, blocks, threads, 0, stream_.get(), arguments);
      on_.finish(stream_.get());
      const std::chrono::duration<double, std::micro> took = clock_type::now() - start;
      if (i >= 3) samples.push_back(took.count());
    }
    std::nth_element(samples.begin(), samples.begin() + static_cast<long>(samples.size() / 2),
                     samples.end());
    return samples[samples.size() / 2];
  }

 private:
  accelerator& on_;
  tandem::device_stream stream_;
  tandem::buffer word_;
  accelerator::module module_ = nullptr;
  accelerator::kernel kernel_ = nullptr;
};

/// go: transfer the next window; wait (rank 1): it has not been started; end: there is none.
enum class window_step { go, wait, end };
window_step next_window_step(progress& in, int rank, long window) {
  if (rank == 0) {
    if (in.computed.load() == ranks) {
      in.has_ended.store(true);
      return window_step::end;
    }
    in.windows.store(window + 1);
    return window_step::go;
  }
  const bool has_ended = in.has_ended.load();
  if (in.windows.load() > window) return window_step::go;
  return has_ended ? window_step::end : window_step::wait;
}

awaitable<void> move_one(tandem::channel& peer, int rank, mutable_view view) {
  if (rank == 0) {
    co_await peer.send(0, view);
  } else {
    co_await peer.recv(0, view);
  }
}

awaitable<void> move_windows(tandem::channel& peer, progress& in, int rank, const messages& what) {
  for (long window = 0;;) {
    const window_step now = next_window_step(in, rank, window);
    if (now == window_step::end) break;
    if (now == window_step::wait) {
      co_await asio::post(peer.get_executor(), asio::use_awaitable);
      continue;
    }
    std::vector<awaitable<void>> all;
    for (const mutable_view& view : what.views()) all.push_back(move_one(peer, rank, view));
    co_await tandem::when_all(std::move(all));
    ++window;
  }
}

void move_by_tandem(progress& in, int rank, const messages& what) {
  const auto port = static_cast<std::uint16_t>(in.port.load());
  tandem::bench::run_job(rank, port,
                         [&](tandem::channel& peer) { return move_windows(peer, in, rank, what); });
}

void move_by_nccl(shared_state& with, progress& in, int rank, accelerator& device,
                  const messages& what) {
  std::string why;
  const tandem::detail::nccl* const lib = tandem::detail::find_nccl(memory_kind::cuda, why);
  if (lib == nullptr) throw tandem::error(tandem::errc::device_failed, why);
  if (rank == 0) tandem::bench::check_nccl(*lib, lib->get_unique_id(&with.id), "ncclGetUniqueId");
  barrier_wait(with, ranks);
  tandem::bench::nccl_rank over(*lib, device, rank, ranks, with.id);
  for (long window = 0;;) {
    const window_step now = next_window_step(in, rank, window);
    if (now == window_step::end) break;
    if (now == window_step::wait) continue;
    over.begin();
    for (const mutable_view& view : what.views()) {
      rank == 0 ? over.send(view, 1) : over.recv(view, 0);
    }
    over.end();
    over.finish();
    ++window;
  }
}

int run_rank(const plan& what, shared_state& with, progress& in, int rank) {
  accelerator& device = tandem::accelerator_at(memory_kind::cuda, rank);
  const std::int64_t count = what.measurements.front().iters;
  busy_kernel kernel(device);
  messages moved(rank, what);
  barrier_wait(with, ranks);
  const double before = kernel.time_us(count);
  barrier_wait(with, ranks);
  // Timing starts once windows are moving.
  std::thread compute([&] {
    while (in.windows.load() < 4) std::this_thread::yield();
    in.us[rank][1] = kernel.time_us(count);
    in.computed.fetch_add(1);
  });
  if (what.mode == "nccl") {
    move_by_nccl(with, in, rank, device, moved);
  } else {
    move_by_tandem(in, rank, moved);
  }
  compute.join();
  barrier_wait(with, ranks);
  in.us[rank][0] = (before + kernel.time_us(count)) / 2;
  with.wrong.fetch_add(moved.wrong_bytes());
  barrier_wait(with, ranks);
  if (rank == 0) {
    // In thousandths of the time alone, for the rank with the larger slow-down.
    double worst = 0;
    for (const auto& us : in.us) worst = std::max(worst, 1000 * us[1] / us[0]);
    std::fprintf(stderr,
                 "gpu_overlap: %s: sender %.1f us alone, %.1f during transfers; receiver %.1f, "
                 "%.1f; %ld windows\n",
                 what.mode.c_str(), in.us[0][0], in.us[0][1], in.us[1][0], in.us[1][1],
                 in.windows.load());
    tandem::bench::print_record(what, what.measurements.front(), what.mode, {worst},
                                with.wrong.load());
  }
  return with.wrong.load() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return tandem::bench::start_ranks("gpu_overlap", argc, argv, run_rank);
}
