#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tandem/accelerator.hpp>
#include <tandem/detail/hip.hpp>
#include <vector>

namespace tandem::devices {

/// Throws `errc::device_failed` for a result other than success, and clears HIP's error of this
/// thread, which an error check of the application would take for its own.
void check(const detail::hip& driver, detail::amd::result status, std::string_view call,
           std::string_view on);

/// One HIP device.
///
/// Its streams have the highest priority: HIP maps all streams of one priority to four hardware
/// queues (GPU_MAX_HW_QUEUES), and a stream that waits for an event or a value blocks everything
/// in its queue. Streams of another priority have queues of their own, so a user's stream that is
/// held never blocks the copies that it waits for.
class hip_device final : public accelerator {
 public:
  hip_device(const detail::hip& driver, int ordinal);

  void enter() override;
  void leave() noexcept override;

  void* allocate(std::size_t bytes) override;
  void free(void* which) noexcept override;
  void* allocate_pinned(std::size_t bytes) override;
  void free_pinned(void* which) noexcept override;
  void pin(void* from, std::size_t bytes) override;
  void unpin(void* from) noexcept override;
  void* device_pointer(void* pinned) override;
  range allocation_of(const void* address) override;
  std::uint64_t allocation_id(const void* address) noexcept override;
  bool owns(const void* address) noexcept override;

  stream make_stream() override;
  void free_stream(stream which) noexcept override;
  void copy(void* to, const void* from, std::size_t bytes, stream on) override;
  void fill(void* to, std::uint8_t with, std::size_t bytes, stream on) override;
  void finish(stream which) override;
  bool is_capturing(stream which) override;
  void call(stream on, host_function what, void* with) override;
  /// HIP compares without wrap-around: a word must not pass 2^32 - 1. By default HIP waits in a
  /// kernel of one thread that polls; with GPU_STREAMOPS_CP_WAIT=1 it refuses pinned memory.
  void await_value(stream on, void* word, std::uint32_t value) override;
  void write_value(stream on, void* word, std::uint32_t value) override;

  event make_event() override;
  void free_event(event which) noexcept override;
  void record(event which, stream on) override;
  void await(stream which, event for_) override;
  bool is_complete(event which) override;

  bool can_access_peer(int other_device) override;
  void enable_peer_access(int other_device) override;
  handle share(void* base) override;
  void* open(const handle& shared) override;
  void close(void* opened) noexcept override;
  dma_buf export_dma_buf(const void* address, std::size_t bytes) override;
  /// By the HIP call (ROCm 7), else by the register that RCCL writes for GPUs before MI200.
  /// @par Errors `unsupported_memory` where there is neither: RCCL has the NIC read a word of the
  ///   device instead, which is up to the owner of the NIC.
  void flush_rdma() override;

  module load(const void* image) override;
  void unload(module which) noexcept override;
  kernel find(module in, const char* name) override;
  void launch(kernel what, unsigned blocks, unsigned threads, unsigned shared_bytes, stream on,
              void** arguments) override;

 private:
  /// Makes this device current on the calling thread until the end of the scope.
  class scoped_device {
   public:
    explicit scoped_device(hip_device& of)
        : of_(of),
          may_call_(of.driver_.exchange_capture_mode, of.driver_.last_error),
          previous_(of.make_current()) {}
    ~scoped_device() { of_.restore_current(previous_); }
    scoped_device(const scoped_device&) = delete;
    scoped_device& operator=(const scoped_device&) = delete;

   private:
    hip_device& of_;
    const relaxed_capture<detail::amd::capture_mode, detail::amd::result> may_call_;
    const int previous_;
  };

  /// For callers that must not throw: runs `what` with this device current; true: it succeeded.
  template <class Function>
  bool attempt_noexcept(Function what) noexcept {
    try {
      const scoped_device here(*this);
      if (what() == detail::amd::success) return true;
      driver_.last_error();
    } catch (const error&) {
    }
    return false;
  }

  /// Makes this device current on the calling thread; returns the previous one.
  int make_current();
  void restore_current(int previous) noexcept;
  void read_facts();
  int attribute(int which);
  void require_success(detail::amd::result status, std::string_view call) const {
    check(driver_, status, call, text_);
  }

  const detail::hip& driver_;
  std::string text_;
  int major_ = 0;  ///< major version of HIP
  volatile std::uint32_t* flush_register_ = nullptr;
};

/// Compilation target ("gfx942") of the GPU at this PCI address; empty: HSA does not report it.
/// HIP reports it only in a structure whose layout depends on its version, while HSA's numbers are
/// fixed by its specification. Partitions of one GPU differ in the PCI function only and have one
/// architecture.
/// @param pci  "0000:3b:00.0"
std::string architecture_at(const detail::hsa& from, std::string_view pci);

/// Whether device memory can be exported as dma-buf descriptors, for NICs.
bool exports_dma_buf(const detail::hsa& from);

/// All devices that HIP reports, in its order (HIP applies HIP_VISIBLE_DEVICES).
/// @par Errors `device_failed` where HIP cannot count or describe them.
std::vector<std::unique_ptr<accelerator>> hip_devices(const detail::hip& driver);

}  // namespace tandem::devices
