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

/// GPUs in memory: while it lives, `find_cuda` gives its functions. Device addresses lie where
/// nothing can be read or written; the bytes are elsewhere, and move only when a stream gets there,
/// on a thread of the double or step by step. Strict where drivers differ, and it fails on demand.
/// Misuse fails as CUDA fails it and is remembered; that, and what is still open when it ends,
/// fails the test. One at a time. Any thread.
///
/// Differs from the driver: a process may open its own IPC handles; allocations begin at pages, and
/// their addresses never come again; dma-bufs of one allocation are the same pages or none in
/// common; freeing memory waits for nothing, so work that still uses it is misuse; a free that
/// fails has freed.
class cuda_double {
 public:
  struct options {
    int devices = 2;
    std::size_t memory_bytes = std::size_t{1} << 30;  ///< of each device
    /// Who reaches each other's memory; everybody, if none.
    std::optional<std::vector<std::pair<int, int>>> peers = {};
    bool stream_values = true;
    bool dma_buf = true;
    bool gpu_direct = true;
    int writes_ordering = 0;  ///< 0: what NICs wrote wants a flush; 100: the owner need not

    int major = 9, minor = 0;
    std::string name = "Double H200";
    int driver_version = 12040;
    std::uint64_t seed = 1;  ///< of the order in which streams move
    /// Work waits up to so long before it is done, by chance.
    std::chrono::microseconds most_delay{0};
    /// What copies to other devices serves a stream until nothing is left on it, as that of an H200
    /// does (`bench/gpu_beside`).
    bool greedy_engines = false;
    /// No page belongs to nobody between two allocations.
    bool side_by_side = false;
    /// Nothing moves but by `step`, `run_all` and `cuStreamSynchronize`.
    bool manual = false;
  };

  cuda_double();
  explicit cuda_double(options as);
  ~cuda_double();
  cuda_double(const cuda_double&) = delete;
  cuda_double& operator=(const cuda_double&) = delete;

  /// The functions, which a test may change: an old driver has no export_range. Always at the same
  /// place; between two doubles they give `deinitialized`.
  detail::cuda& table() noexcept;

  // Movement.
  void manual(bool on);
  /// Does one piece of work, of any stream or of this one (null: any). False: none can be done.
  bool step(cu::stream of = nullptr);
  /// All that can be done; returns how much that was.
  std::size_t run_all();
  /// Pieces of work that are queued and not done, of all streams or of this one.
  std::size_t queued() const;
  std::size_t queued(cu::stream on) const;
  /// While on, what is queued there is recorded for a graph: it is never done.
  void capture(cu::stream which, bool on);

  // Memory and kernels.
  /// Where the bytes of device memory are, or pinned memory. Throws std::out_of_range unless all of
  /// them are in one live allocation; in a kernel that is CUDA's error 700.
  std::byte* host(cu::address of, std::size_t bytes = 1);
  template <class T>
  T* host(const T* of, std::size_t count = 1) {
    return reinterpret_cast<T*>(host(reinterpret_cast<cu::address>(of), count * sizeof(T)));
  }
  /// @param arguments  a pointer to a copy of each
  using kernel =
      std::function<void(unsigned blocks, unsigned threads, void** arguments, cuda_double&)>;
  /// What a launch by this name does; modules whose image is a text with this word have it.
  void add_kernel(const std::string& name, std::vector<std::size_t> argument_bytes, kernel what);

  // Failures. Functions by their exported names without version, or as members of the table.
  /// The n-th call from now (1: the next) fails so.
  void fail(const std::string& function, int at_call, cu::result with);
  /// After so many more pieces of work on the device every one fails, and every call with it: the
  /// sticky error of a kernel that has crashed.
  void break_device(int device, int after_work = 0, cu::result with = 719);

  // Audit.
  std::size_t calls(const std::string& function) const;
  /// Misuse so far.
  std::vector<std::string> violations() const;
  /// One with these words will come: it does not fail the test, but not coming does.
  void expect_violation(const std::string& words);
  /// What is not yet given back.
  struct objects {
    std::size_t allocations = 0, pinned = 0, registrations = 0, streams = 0, events = 0;
    std::size_t modules = 0, openings = 0, pushed_contexts = 0;
    std::size_t device_bytes = 0;
    bool operator==(const objects&) const = default;
  };
  objects open() const;
  /// What streams have done.
  struct traffic {
    std::size_t copies = 0, copied_bytes = 0, pageable_copies = 0;
    std::size_t fills = 0, launches = 0, host_functions = 0;
  };
  traffic seen() const;

 private:
  std::unique_ptr<cuda::world> world_;
};

}  // namespace tandem::test
