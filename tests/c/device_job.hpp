#pragma once

#include <gtest/gtest.h>
#include <tandem.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <tandem/accelerator.hpp>
#include <thread>
#include <vector>

#include "doubles/hip/hip_on_cuda.hpp"
#include "doubles/nccl/double.hpp"
#include "progress.hpp"
#include "support/device_mirror.hpp"

namespace tandem::test {

/// A key-value store in memory, for ranks that are threads of one process.
class memory_store {
 public:
  tandem_store handle() { return {sizeof(tandem_store), this, set, get}; }

 private:
  static int set(void* context, const char* key, const void* value, std::size_t bytes) {
    auto& self = *static_cast<memory_store*>(context);
    const std::lock_guard lock(self.mutex_);
    self.values_[key].assign(static_cast<const char*>(value), bytes);
    self.changed_.notify_all();
    return 0;
  }
  static int get(void* context, const char* key, void* value, std::size_t* bytes,
                 std::int64_t timeout_ms) {
    auto& self = *static_cast<memory_store*>(context);
    std::unique_lock lock(self.mutex_);
    const auto is_set = [&] { return self.values_.contains(key); };
    if (!self.changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_set)) return 1;
    const std::string& found = self.values_[key];
    std::memcpy(value, found.data(), std::min(found.size(), *bytes));
    *bytes = found.size();
    return 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// A rank of a job of the C interface, on a simulated GPU.
struct device_rank {
  tandem_job* job = nullptr;
  tandem_comm* world = nullptr;
  int rank = 0, ranks = 0, device = 0;
  memory_kind kind = memory_kind::cuda;
  accelerator* gpu = nullptr;
  device_stream stream;
  tandem_error error = TANDEM_ERROR_INIT;

  /// A call behind the work on `stream`.
  tandem_call call(tandem_batch* batch = nullptr) const {
    tandem_call made = TANDEM_CALL_INIT;
    made.stream = stream.get();
    made.has_stream = 1;
    made.batch = batch;
    return made;
  }
  /// Makes `stream` wait for it, and releases it.
  tandem_status finish(tandem_op* op) {
    const tandem_status status = tandem_op_wait_stream(op, stream.get(), &error);
    tandem_op_release(op);
    return status;
  }
};

using numbers = std::vector<float>;
inline constexpr tandem_reduction added{TANDEM_FLOAT32, TANDEM_SUM, 1};

inline numbers filled(std::size_t count, float value) {
  return numbers(count, value);
}

/// Numbers on a device. `set` and `get` are work on the rank's stream.
class device_numbers {
 public:
  device_numbers(device_rank& of, std::vector<float> values)
      : of_(of),
        host_(*of.gpu, values.size() * sizeof(float)),
        memory_(values.size() * sizeof(float), of.kind, of.device) {
    std::memcpy(host_.data(), values.data(), host_.size());
    of_.gpu->copy(memory_.data(), host_.data(), host_.size(), of_.stream.get());
  }
  /// Before it is destroyed without a `get`: the stream still copies into it.
  void finish() { of_.gpu->finish(of_.stream.get()); }
  tandem_buffer buffer() const { return part(0, host_.size() / sizeof(float)); }
  tandem_buffer part(std::size_t first, std::size_t count) const {
    return {static_cast<std::byte*>(memory_.data()) + first * sizeof(float), count * sizeof(float),
            static_cast<std::int32_t>(of_.kind), of_.device};
  }
  std::vector<float> get() {
    of_.gpu->copy(host_.data(), memory_.data(), host_.size(), of_.stream.get());
    of_.gpu->finish(of_.stream.get());
    std::vector<float> values(host_.size() / sizeof(float));
    std::memcpy(values.data(), host_.data(), host_.size());
    return values;
  }

 private:
  device_rank& of_;
  pinned_buffer host_;
  tandem::buffer memory_;
};

/// Runs ranks as threads of this process, each on a simulated GPU, over a simulated library.
class device_jobs {
 public:
  /// @param devices  of the ranks
  /// @param first_of_amd  ranks from this one on have devices of AMD
  explicit device_jobs(std::vector<int> devices, int first_of_amd = std::numeric_limits<int>::max())
      : devices_(std::move(devices)), first_of_amd_(first_of_amd), gpus(4), library(gpus.gpus) {}

  /// Each rank is an island of its own.
  void separate_islands() { is_separate_ = true; }
  /// Every rank does this; then it leaves the job.
  void run(const std::function<void(device_rank&)>& what,
           const std::vector<const char*>& settings = {nullptr}) {
    memory_store store;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      threads.emplace_back([&, rank] { run_rank(static_cast<int>(rank), store, what, settings); });
    }
    for (std::thread& each : threads) each.join();
    close();
  }

 private:
  /// Runs what the event loop of this process still has to do for jobs that were left.
  void close() {
    c::progress& loop = c::progress::of_process({});
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (gpus.gpus.open() != cuda_double::objects{} && std::chrono::steady_clock::now() < limit) {
      loop.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void run_rank(int rank, memory_store& meet, const std::function<void(device_rank&)>& what,
                const std::vector<const char*>& settings) {
    const tandem_store store = meet.handle();
    tandem_job_options options = TANDEM_JOB_OPTIONS_INIT;
    options.rank = rank;
    options.size = static_cast<int>(devices_.size());
    options.store = &store;
    std::vector<const char*> all = settings;
    const std::string island = std::to_string(rank);
    if (is_separate_) all.insert(all.begin(), {"island", island.c_str()});
    options.settings = all.data();
    device_rank made;
    if (rank >= first_of_amd_) made.kind = memory_kind::hip;
    options.memory_kind = static_cast<std::int32_t>(made.kind);
    options.device = devices_[static_cast<std::size_t>(rank)];
    made.rank = rank;
    made.ranks = options.size;
    made.device = options.device;
    ASSERT_EQ(tandem_job_create(&options, &made.job, &made.error), TANDEM_OK) << made.error.text;
    made.world = tandem_job_world(made.job);
    made.gpu = &accelerator_at(made.kind, made.device);
    made.stream = device_stream(*made.gpu);
    what(made);
    made.gpu->finish(made.stream.get());
    tandem_job_destroy(made.job);
  }

  const std::vector<int> devices_;
  const int first_of_amd_;
  bool is_separate_ = false;

 public:
  devices_with_kernels gpus;
  hip_on_cuda hip;
  nccl_double library;
};

}  // namespace tandem::test
