#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>
#include <utility>
#include <vector>

namespace tandem {

/// Properties and capabilities of an accelerator; constant for the life of the process.
struct accelerator_facts {
  memory_kind kind = memory_kind::cuda;
  int device = 0;            ///< ordinal among the visible devices of `kind`
  std::string name;          ///< "NVIDIA H200"
  std::string pci;           ///< "0000:3b:00.0", lower case
  std::string uuid;          ///< 32 hexadecimal digits; the same in every process
  std::string architecture;  ///< what kernels are compiled for: "sm_90", "gfx942"
  std::string driver;        ///< version of the vendor's driver: "13.0"
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
  int copy_engines = 0;
  int numa_node = -1;              ///< of the host; -1: unknown
  bool has_stream_values = false;  ///< streams can wait on and write 32-bit words
  bool exports_dma_buf = false;
  bool takes_rdma = false;        ///< the driver reports that NICs can access its memory
  bool needs_rdma_flush = false;  ///< NIC writes are visible in order only after a flush
};

/// One accelerator of this machine through its vendor's driver: memory, streams, events, peer
/// access, kernels. CUDA and HIP implement it; the layers above do not depend on the vendor.
///
/// Handles of streams and events are the vendor's own (CUstream, hipStream_t), so a user's stream
/// can be passed directly. Null is the vendor's default stream.
/// @par Threads  Any, concurrently; the calling thread's current device is preserved.
/// @par Errors  `errc::device_failed` names the device, the call and the driver's message.
///   Functions that free something never throw, and do nothing after the driver has shut down (at
///   exit).
/// @par Fork  A child of a process that has used an accelerator cannot use one: `device_failed`.
class accelerator {
 public:
  using stream = void*;
  using event = void*;
  using module = void*;
  using kernel = void*;
  using host_function = void (*)(void* with);

  accelerator() = default;
  accelerator(const accelerator&) = delete;
  accelerator& operator=(const accelerator&) = delete;
  virtual ~accelerator() = default;

  const accelerator_facts& facts() const noexcept { return facts_; }
  memory_kind kind() const noexcept { return facts_.kind; }
  int device() const noexcept { return facts_.device; }
  /// "cuda:0 (NVIDIA H200)".
  std::string text() const;

  /// Makes this device current on the calling thread until `leave`, for libraries that query the
  /// current device.
  virtual void enter() = 0;
  virtual void leave() noexcept = 0;

  // Memory. For 0 bytes nothing is allocated and null is returned.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* which) noexcept = 0;
  /// Pinned host memory, mapped for every device of the vendor: copies need no bounce buffer, and
  /// kernels access it directly. On the device's NUMA node if the caller runs there.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* which) noexcept = 0;
  /// Pins and maps memory that was allocated elsewhere, until `unpin`.
  virtual void pin(void* from, std::size_t bytes) = 0;
  virtual void unpin(void* from) noexcept = 0;
  /// The device address of pinned host memory, for streams and kernels.
  virtual void* reach(void* pinned) = 0;
  struct range {
    void* base = nullptr;
    std::size_t bytes = 0;
  };
  /// The allocation that an address of this device lies in.
  virtual range allocation_of(const void* address) = 0;
  /// An id that is unique among all past and present allocations of this process: distinguishes
  /// freed memory from a later allocation at the same address. 0: unknown to the driver.
  /// @par Cost  a look-up; no context is needed.
  virtual std::uint64_t allocation_id(const void* address) noexcept = 0;
  /// True if the address lies in this device's memory.
  virtual bool owns(const void* address) noexcept = 0;

  // Streams: work on one stream executes in order.
  /// A stream that does not synchronise with any other, nor with the default stream.
  virtual stream make_stream() = 0;
  virtual void free_stream(stream which) noexcept = 0;
  /// Queues a copy between any two of: memory of this device, of an accessible peer device, pinned
  /// host memory.
  virtual void copy(void* to, const void* from, std::size_t bytes, stream on) = 0;
  struct piece {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
  };
  /// Queues several such copies, unordered among themselves. On an error some may be queued.
  /// @par Cost  one call where the driver has a batched copy (CUDA 12.8): a quarter of the time of
  ///   as many calls at 1 MiB each between two H200
  virtual void copy_all(std::span<const piece> what, stream on);
  virtual void fill(void* to, std::uint8_t with, std::size_t bytes, stream on) = 0;
  /// Blocks until all work queued on the stream has completed.
  virtual void finish(stream which) = 0;
  /// True while the stream is captured into a graph: its work is recorded, not executed, so events
  /// recorded on it never complete.
  virtual bool is_capturing(stream which) = 0;
  /// Queues a host function, run on a driver thread. It must neither call the driver nor block.
  virtual void call(stream on, host_function what, void* with) = 0;
  /// Later work on the stream waits until the word is at least `value`, compared as a counter that
  /// wraps. @pre has_stream_values; `word` is a result of `reach`, or device memory.
  virtual void await_value(stream on, void* word, std::uint32_t value) = 0;
  virtual void write_value(stream on, void* word, std::uint32_t value) = 0;

  // Events: points in a stream's work.
  virtual event make_event() = 0;
  virtual void free_event(event which) noexcept = 0;
  virtual void record(event which, stream on) = 0;
  /// Later work on the stream waits for the event, which may belong to any device of the vendor.
  virtual void await(stream which, event for_) = 0;
  /// True once all work that was on the stream at `record` has completed. Never blocks.
  virtual bool is_reached(event which) = 0;

  // Peers, in this process and in others.
  /// True if copies can access that device's memory without staging through the host; enables peer
  /// access then.
  virtual bool reaches(int other_device) = 0;
  using handle = std::array<std::byte, 64>;
  /// An IPC handle of an allocation, for other processes of this host.
  /// @param base  as `allocation_of` returns it
  virtual handle share(void* base) = 0;
  /// Maps another process's allocation for copies on this device. An allocation must not be open
  /// twice at a time. @par Errors also for a handle that this same process has shared.
  virtual void* open(const handle& shared) = 0;
  virtual void close(void* opened) noexcept = 0;
  /// A dma-buf descriptor with which NICs register `bytes` from `address`, and the address's offset
  /// in it. The caller closes the descriptor.
  struct dma_buf {
    int descriptor = -1;
    std::size_t offset_bytes = 0;
  };
  virtual dma_buf export_dma_buf(const void* address, std::size_t bytes) = 0;
  /// Makes everything that NICs have written so far visible to work that is queued after this call.
  virtual void flush_rdma() = 0;

  // Kernels.
  virtual module load(const void* image) = 0;
  virtual void unload(module which) noexcept = 0;
  virtual kernel find(module in, const char* name) = 0;
  /// Launches a one-dimensional grid. @param arguments  a pointer to each argument
  virtual void launch(kernel what, unsigned blocks, unsigned threads, unsigned shared_bytes,
                      stream on, void** arguments) = 0;

 protected:
  accelerator_facts facts_;
};

/// The accelerators of a kind, or why there are none.
struct accelerators {
  std::vector<accelerator*> found;  ///< by ordinal; they live as long as the process
  std::string why_none;             ///< "no CUDA here: ..."; empty if any were found
};

/// All accelerators of a kind, detected on first use. Any thread. @pre not `host`.
accelerators find_accelerators(memory_kind kind);

/// One of them. @par Errors `errc::unsupported_memory`: no such device, with the reason.
accelerator& accelerator_at(memory_kind kind, int device);

/// The accelerator of a view. @pre its kind is not `host`. @par Errors as `accelerator_at`.
inline accelerator& accelerator_of(const const_view& view) {
  return accelerator_at(view.kind, view.device);
}

/// Owns a pinned host allocation. Move-only.
class pinned_buffer {
 public:
  pinned_buffer() = default;
  pinned_buffer(accelerator& of, std::size_t bytes)
      : of_(&of), data_(of.allocate_pinned(bytes)), bytes_(bytes) {}
  pinned_buffer(pinned_buffer&& from) noexcept { *this = std::move(from); }
  pinned_buffer& operator=(pinned_buffer&& from) noexcept {
    std::swap(of_, from.of_);
    std::swap(data_, from.data_);
    std::swap(bytes_, from.bytes_);
    return *this;
  }
  ~pinned_buffer() {
    if (data_ != nullptr) of_->free_pinned(data_);
  }
  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  std::size_t size() const noexcept { return bytes_; }

 private:
  accelerator* of_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Owns a stream. Move-only; work still queued when it is destroyed completes nevertheless.
class device_stream {
 public:
  device_stream() = default;
  explicit device_stream(accelerator& of) : of_(&of), handle_(of.make_stream()) {}
  device_stream(device_stream&& from) noexcept { *this = std::move(from); }
  device_stream& operator=(device_stream&& from) noexcept {
    std::swap(of_, from.of_);
    std::swap(handle_, from.handle_);
    return *this;
  }
  ~device_stream() {
    if (handle_ != nullptr) of_->free_stream(handle_);
  }
  accelerator::stream get() const noexcept { return handle_; }
  accelerator& of() const noexcept { return *of_; }

 private:
  accelerator* of_ = nullptr;
  accelerator::stream handle_ = nullptr;
};

}  // namespace tandem
