#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tandem/detail/cuda.hpp>
#include <utility>
#include <vector>

namespace tandem::test {
namespace cu = detail::cu;
namespace cuda {
class world;
}

/// A CUDA driver with simulated GPUs: while it lives, `find_cuda` returns its functions. Device
/// addresses are not accessible; the bytes are in other memory, and move only when a stream
/// executes the work, on a thread of the double or step by step. Strict where drivers differ, and
/// it fails calls on request. Misuse fails as in CUDA and is recorded; recorded misuse and objects
/// left open at its end fail the test. One at a time; usable from any thread.
///
/// Differs from the driver: a process may open its own IPC handles; allocations start at page
/// boundaries, and addresses are never reused; two dma-bufs of an allocation cover the same pages
/// or disjoint ones; freeing memory does not synchronize, so work that still uses it is misuse; a
/// free that returns an error has freed.
class cuda_double {
 public:
  struct options {
    int devices = 2;
    std::size_t memory_bytes = std::size_t{1} << 30;  ///< of each device
    /// Pairs of devices that may access each other's memory; none: all.
    std::optional<std::vector<std::pair<int, int>>> peers = {};
    bool stream_values = true;
    bool dma_buf = true;
    bool mps = false;  ///< kernels of several processes at once
    bool gpu_direct = true;
    int writes_ordering = 0;  ///< 0: writes of NICs have to be flushed; 100: not for the owner

    int major = 9, minor = 0;
    std::string name = "Double H200";
    int driver_version = 12040;
    std::uint64_t seed = 1;  ///< of the order in which streams make progress
    /// Work is delayed randomly, by up to this much.
    std::chrono::microseconds max_delay{0};
    /// The engine that copies to other devices serves a stream until it is empty, like that of an
    /// H200 (`bench/gpu_beside`).
    bool greedy_engines = false;
    /// Consecutive allocations are adjacent, without a gap.
    bool side_by_side = false;
    /// Copies run while other calls are made, as in copy engines; else a call waits for the copy.
    bool concurrent_copies = false;
    /// Work is executed only by `step`, `run_all` and `cuStreamSynchronize`.
    bool manual = false;
  };

  cuda_double();
  explicit cuda_double(options as);
  ~cuda_double();
  cuda_double(const cuda_double&) = delete;
  cuda_double& operator=(const cuda_double&) = delete;

  /// The functions, which a test may change: an old driver has no export_range. Always at the same
  /// address; between two doubles they return `deinitialized`.
  detail::cuda& table() noexcept;

  // Execution.
  void manual(bool on);
  /// Executes one piece of work, of any stream or of this one (null: any). False: none is ready.
  bool step(cu::stream of = nullptr);
  /// Executes everything that can be; returns the number of pieces.
  std::size_t run_all();
  /// Pieces of work queued and not complete, of all streams or of this one.
  std::size_t queued() const;
  std::size_t queued(cu::stream on) const;
  /// While on, work queued there is captured for a graph, in the global mode: it is never executed,
  /// and no event can be queried by threads that have not relaxed their mode.
  void capture(cu::stream which, bool on);

  /// Streams of one priority that are made from now on share so many hardware queues of their
  /// device (CUDA_DEVICE_MAX_CONNECTIONS), in which work begins in the order of the calls.
  void share_hardware_queues(int count);

  // Memory and kernels.
  /// The host address of device or pinned memory. Throws std::out_of_range unless all bytes are in
  /// one live allocation; in a kernel that becomes CUDA error 700.
  std::byte* host(cu::address of, std::size_t bytes = 1);
  template <class T>
  T* host(const T* of, std::size_t count = 1) {
    return reinterpret_cast<T*>(host(reinterpret_cast<cu::address>(of), count * sizeof(T)));
  }
  /// Maps new pages of a device one after the other, as PyTorch's expandable segments do.
  std::byte* make_pages(int device, const std::vector<std::size_t>& bytes);
  /// Replaces those that are mapped here by others, at the same addresses.
  void renew_pages(const std::byte* at);
  void free_pages(const std::byte* base);
  /// @param arguments  a pointer to a copy of each
  using kernel =
      std::function<void(unsigned blocks, unsigned threads, void** arguments, cuda_double&)>;
  /// Defines a kernel; it is in modules whose image is a text that contains its name.
  void add_kernel(const std::string& name, std::vector<std::size_t> argument_bytes, kernel what);
  /// Starts a kernel that waits for others, on threads of its own; what it returns tells when it is
  /// complete. Neither calls the double on the thread that calls it.
  using waiting_kernel = std::function<std::function<bool()>(
      unsigned blocks, unsigned threads, const std::vector<std::vector<std::byte>>& arguments,
      cuda_double&)>;
  void add_waiting_kernel(const std::string& name, std::vector<std::size_t> argument_bytes,
                          waiting_kernel start);

  // Failures. Functions by their exported names without version, or by members of the table.
  /// The n-th call from now (1: the next) returns this.
  void fail(const std::string& function, int at_call, cu::result with);
  /// After this many more pieces of work on the device all work and all calls fail: the sticky
  /// error of a crashed kernel.
  void break_device(int device, int after_work = 0, cu::result with = 719);

  /// Until the result is destroyed calls are misuse, as while a thread that waits in the driver
  /// keeps it locked.
  std::shared_ptr<void> lock_driver();

  // Audit.
  std::size_t calls(const std::string& function) const;
  /// Misuse so far.
  std::vector<std::string> violations() const;
  /// Expects misuse whose text contains `words`: it does not fail the test, but its absence does.
  void expect_violation(const std::string& words);
  /// Objects that are still open.
  struct objects {
    std::size_t allocations = 0, pinned = 0, registrations = 0, streams = 0, events = 0;
    std::size_t modules = 0, openings = 0, pushed_contexts = 0, page_handles = 0;
    std::size_t device_bytes = 0;
    bool operator==(const objects&) const = default;
  };
  objects open() const;
  /// Work that streams have executed.
  struct traffic {
    std::size_t copies = 0, copied_bytes = 0, pageable_copies = 0;
    std::size_t fills = 0, launches = 0, host_functions = 0;
  };
  traffic seen() const;

 private:
  std::unique_ptr<cuda::world> world_;
};

}  // namespace tandem::test
