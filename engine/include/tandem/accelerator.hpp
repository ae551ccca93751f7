/// The accelerators of this machine, and waiting for their streams.
#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

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
  int numa_node = -1;  ///< of the host; -1: unknown
  /// Streams can wait on and write 32-bit words, and do not share hardware queues, where one that
  /// waits would hold up others (CUDA_DEVICE_MAX_CONNECTIONS below 8, or not set under CUDA's MPS).
  bool has_stream_memory_ops = false;
  /// Kernels of several processes run at the same time (CUDA's MPS), not in turns.
  bool runs_processes_at_once = false;
  bool exports_dma_buf = false;
  bool supports_rdma = false;     ///< the driver reports that NICs can access its memory
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
  virtual void* device_pointer(void* pinned) = 0;
  /// An allocation.
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
  /// One of several copies.
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
  /// wraps. @pre has_stream_memory_ops; `word` is a result of `device_pointer`, or device memory.
  virtual void await_value(stream on, void* word, std::uint32_t value) = 0;
  virtual void write_value(stream on, void* word, std::uint32_t value) = 0;

  // Events: points in a stream's work.
  virtual event make_event() = 0;
  virtual void free_event(event which) noexcept = 0;
  virtual void record(event which, stream on) = 0;
  /// Later work on the stream waits for the event, which may belong to any device of the vendor.
  virtual void await(stream which, event for_) = 0;
  /// True once all work that was on the stream at `record` has completed. Never blocks.
  virtual bool is_complete(event which) = 0;

  // Peers, in this process and in others.
  /// True if copies can access that device's memory without staging through the host. Makes no
  /// context on either device.
  virtual bool can_access_peer(int other_device) = 0;
  /// Lets copies and kernels on this device access that device's memory of this process. Memory
  /// that `open` or `map_pages` maps does not need it. @pre can_access_peer(other_device)
  /// @par Memory  of a context on the other device: some 600 MiB there, if this process has none.
  virtual void enable_peer_access(int other_device) = 0;
  using handle = std::array<std::byte, 64>;
  /// An IPC handle of an allocation, for other processes of this host.
  /// @param base  as `allocation_of` returns it
  virtual handle share(void* base) = 0;
  /// Maps another process's allocation for copies on this device. An allocation must not be open
  /// twice at a time. @par Errors also for a handle that this same process has shared.
  virtual void* open(const handle& shared) = 0;
  virtual void close(void* opened) noexcept = 0;
  /// Pages that were made apart from their addresses (cuMemCreate: PyTorch's expandable segments,
  /// ncclMemAlloc), which have no IPC handle but a descriptor.
  struct pages {
    int descriptor = -1;  ///< an allocation's, as `allocation_of` finds it
    std::size_t bytes = 0;
  };
  /// A new descriptor of the pages of an allocation, which the caller closes; -1: it is no such
  /// memory. @par Errors `device_failed`: the pages were made without a handle type for other
  /// processes. @param base  as `allocation_of` returns it
  virtual int export_pages(void* base);
  /// Maps such pages one after the other, for copies on this device. The descriptors are not needed
  /// afterwards.
  virtual void* map_pages(std::span<const pages> all);
  /// Lets this device access what another one has mapped.
  virtual void access_pages(void* mapped, std::size_t bytes);
  virtual void unmap_pages(void* mapped, std::size_t bytes) noexcept;
  /// A dma-buf descriptor, and the offset of an address in it.
  struct dma_buf {
    int descriptor = -1;
    std::size_t offset_bytes = 0;
  };
  /// A dma-buf with which NICs register `bytes` from `address`. The caller closes the descriptor.
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

/// The ordinal of the calling thread's current device; 0 if it has none yet. @pre not `host`.
int current_device(memory_kind kind);

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

namespace asio = boost::asio;

/// Blocks a stream until it is released: orders a user's later work on the stream after an
/// operation that has only started. The destructor releases it too, so a failure never leaves a
/// stream blocked. Move-only.
class stream_hold {
 public:
  stream_hold() = default;
  stream_hold(stream_hold&& from) noexcept { *this = std::move(from); }
  stream_hold& operator=(stream_hold&& from) noexcept;
  ~stream_hold() { release(); }

  /// Lets the stream continue. Idempotent. Any thread.
  void release() noexcept;

 private:
  friend class device_watch;
  class words;
  std::shared_ptr<words> of_;
  std::uint32_t which_ = 0;
};

/// Waits until the work that was on a stream at `device_watch::after` has completed. Must not move
/// until `done` or `destroy` is called.
struct device_wait {
  /// Called exactly once, on the watch's executor, never from inside `after`; `failure` is null on
  /// success. Must not throw.
  void (*done)(device_wait&, const std::shared_ptr<const error>& failure) = nullptr;
  /// The execution context is destroyed with it pending: free what waits, call nothing.
  void (*destroy)(device_wait&) noexcept = nullptr;
  void* owner = nullptr;  ///< for the caller's use

  // Private to the watch.
  accelerator::event reached = nullptr;
  std::uint32_t value = 0;
  device_wait* next = nullptr;
};

/// How a stream signals completion. `events`: the driver is queried, 0.5 to 1 us each time.
/// `words`: the stream writes a word of pinned memory, which costs the stream more and the loop one
/// load; needs `has_stream_memory_ops`. Between two H200 words gain nothing at 8 bytes and cost a
/// fifth of the rate at 1 MiB, because a write between copies keeps them from overlapping.
enum class stream_signal : std::uint8_t { events, words };

/// Connects streams with an executor: completions of stream work are delivered to the executor, and
/// a stream can wait for work of the executor.
///
/// While the loop polls, it checks the oldest event or the word of each stream in use. Before it
/// sleeps, a stream of the watch waits for those and then has the driver's thread write to a
/// descriptor that Asio waits for. No thread of the process blocks, the driver's thread calls
/// nothing but write(2), and other streams are not delayed.
///
/// A wait cannot be cancelled, because queued stream work cannot be revoked: buffers are returned
/// only once it has completed.
/// @par Cost  Recording and querying a pooled event; no allocation once the pool has grown.
/// @par Executor  All calls and completions on `get_executor()`.
class device_watch {
 public:
  device_watch(asio::any_io_executor executor, accelerator& of,
               stream_signal by = stream_signal::events);
  /// Destroys pending waits; `done` is not called.
  ~device_watch();
  device_watch(const device_watch&) = delete;
  device_watch& operator=(const device_watch&) = delete;

  asio::any_io_executor get_executor() const noexcept;
  accelerator& of() const noexcept;

  /// Completes `wait` once all work now on `stream` has completed. A device failure completes all
  /// pending waits with that error.
  /// @par Errors  thrown: `device_failed` if the event could not be recorded; `bad_input` for a
  ///   stream that is being captured into a graph. `wait` is not pending then.
  void after(accelerator::stream stream, device_wait& wait);

  /// The same for a coroutine. @par Cancellation  None: completes when the stream work has.
  asio::awaitable<void> reached(accelerator::stream stream);

  /// Work queued on `stream` from now on waits until the hold is released.
  /// @par Errors  thrown: `errc::unsupported_memory` if streams of this device cannot wait on words
  ///   of memory; `device_failed`.
  stream_hold hold(accelerator::stream stream);

  /// Number of pending waits.
  std::size_t pending() const noexcept;

 private:
  class state;
  const std::shared_ptr<state> state_;
  std::shared_ptr<stream_hold::words> words_;
};

}  // namespace tandem

#pragma GCC visibility pop
