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

/// What an accelerator is and can do; constant over the life of the process.
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
  bool has_stream_values = false;  ///< streams wait for words of memory and write them
  bool exports_dma_buf = false;
  bool takes_rdma = false;        ///< the driver says that NICs may reach its memory
  bool needs_rdma_flush = false;  ///< what a NIC wrote is seen in order only after a flush
};

/// One accelerator of this machine, as one vendor's driver gives it: memory, streams, events,
/// peers, kernels. CUDA and HIP are two of these; nothing above knows which.
///
/// Handles of streams and events are the vendor's own (CUstream, hipStream_t), so a user's stream
/// can be given as it is. Null is the vendor's default stream.
/// @par Threads  Any, also several at once; the caller's current device stays what it was.
/// @par Errors  `errc::device_failed` names device, call and the driver's own words. What frees
///   something throws nothing and does nothing once the driver is gone (at the end of a process).
/// @par Fork  A child of a process that has used an accelerator cannot: `device_failed` says so.
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

  /// Makes this device the calling thread's, for libraries that ask which one is, until `leave`.
  virtual void enter() = 0;
  virtual void leave() noexcept = 0;

  // Memory. Of bytes 0 nothing is allocated and null returned.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* which) noexcept = 0;
  /// Host memory that copies reach without a detour and kernels directly, of every device of the
  /// vendor. Near the device's NUMA node where the caller runs there.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* which) noexcept = 0;
  /// Makes memory of somebody else's such memory, until `unpin`.
  virtual void pin(void* from, std::size_t bytes) = 0;
  virtual void unpin(void* from) noexcept = 0;
  /// The address by which streams and kernels know pinned memory.
  virtual void* reach(void* pinned) = 0;
  struct range {
    void* base = nullptr;
    std::size_t bytes = 0;
  };
  /// The allocation that an address of this device lies in.
  virtual range allocation_of(const void* address) = 0;
  /// A number that no other allocation of this process has or had: tells memory that was freed from
  /// what was made in its place. 0: the driver knows no such memory. @par Cost  a look-up, no
  /// context is needed.
  virtual std::uint64_t allocation_id(const void* address) noexcept = 0;
  /// True for an address in this device's memory.
  virtual bool owns(const void* address) noexcept = 0;

  // Streams: work on one is done in order.
  /// One that waits for no other, not even for the default stream.
  virtual stream make_stream() = 0;
  virtual void free_stream(stream which) noexcept = 0;
  /// Queues a copy between any two of: memory of this device, of a peer that it reaches, pinned
  /// memory.
  virtual void copy(void* to, const void* from, std::size_t bytes, stream on) = 0;
  struct piece {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
  };
  /// Several such copies, in any order among themselves; some may be queued where one cannot be.
  /// @par Cost  one call where the driver has one for many (CUDA 12.8): a quarter of the time of as
  ///   many calls at 1 MiB each between two H200
  virtual void copy_all(std::span<const piece> what, stream on);
  virtual void fill(void* to, std::uint8_t with, std::size_t bytes, stream on) = 0;
  /// Blocks until all that is on it is done.
  virtual void finish(stream which) = 0;
  /// Its work is being recorded for a graph, not done: events of it never come.
  virtual bool is_capturing(stream which) = 0;
  /// Calls from a thread of the driver. `what` must not call the driver nor block.
  virtual void call(stream on, host_function what, void* with) = 0;
  /// What follows on the stream waits until the word is at least `value`, in the sense of counters
  /// that go round. @pre has_stream_values; `word` as `reach` gives it, or memory of a device.
  virtual void await_value(stream on, void* word, std::uint32_t value) = 0;
  virtual void write_value(stream on, void* word, std::uint32_t value) = 0;

  // Events: how far a stream had come.
  virtual event make_event() = 0;
  virtual void free_event(event which) noexcept = 0;
  virtual void record(event which, stream on) = 0;
  /// What follows on the stream waits for the event, of whichever device of the vendor.
  virtual void await(stream which, event for_) = 0;
  /// True once all that was on the stream at `record` is done. Never blocks.
  virtual bool is_reached(event which) = 0;

  // Peers, in this process and in others.
  /// Copies reach memory of that device without the host. Lets them, where it is so.
  virtual bool reaches(int other_device) = 0;
  using handle = std::array<std::byte, 64>;
  /// Names an allocation to other processes of this host. @param base  as `allocation_of` says
  virtual handle share(void* base) = 0;
  /// Maps what another process has shared, for copies on this device. The same allocation must not
  /// be opened twice at once. @par Errors also of a handle that this very process has shared.
  virtual void* open(const handle& shared) = 0;
  virtual void close(void* opened) noexcept = 0;
  /// A descriptor by which NICs register `bytes` from `address`, which the caller closes, and where
  /// in it the address lies.
  struct dma_buf {
    int descriptor = -1;
    std::size_t offset_bytes = 0;
  };
  virtual dma_buf export_dma_buf(const void* address, std::size_t bytes) = 0;
  /// What NICs have written until now is seen by what is queued from now on.
  virtual void flush_rdma() = 0;

  // Kernels.
  virtual module load(const void* image) = 0;
  virtual void unload(module which) noexcept = 0;
  virtual kernel find(module in, const char* name) = 0;
  /// In one dimension. @param arguments  a pointer to each
  virtual void launch(kernel what, unsigned blocks, unsigned threads, unsigned shared_bytes,
                      stream on, void** arguments) = 0;

 protected:
  accelerator_facts facts_;
};

/// Why there is none of a kind, or what there is.
struct accelerators {
  std::vector<accelerator*> found;  ///< by ordinal; they live as long as the process
  std::string why_none;             ///< "no CUDA here: ..."; empty: there are some
};

/// All accelerators of a kind, found when first asked for. Any thread. @pre not `host`.
accelerators find_accelerators(memory_kind kind);

/// One of them. @par Errors `errc::unsupported_memory`: there is no such device, and why.
accelerator& accelerator_at(memory_kind kind, int device);

/// The accelerator of a view. @pre its kind is not `host`. @par Errors as `accelerator_at`.
inline accelerator& accelerator_of(const const_view& view) {
  return accelerator_at(view.kind, view.device);
}

/// Pinned memory of its own. Move-only.
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

/// A stream of its own. Move-only; what is on it is done nevertheless.
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
