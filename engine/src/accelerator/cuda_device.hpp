#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tandem/accelerator.hpp>
#include <tandem/detail/cuda.hpp>
#include <vector>

#include "accelerator/driver_calls.hpp"

namespace tandem::devices {

/// Throws `errc::device_failed` for a result other than success, with the name and text of CUDA.
void check(const detail::cuda& driver, detail::cu::result status, std::string_view call,
           std::string_view on);

inline detail::cu::address address_of(const void* pointer) noexcept {
  return reinterpret_cast<detail::cu::address>(pointer);
}
inline void* pointer_to(detail::cu::address address) noexcept {
  return reinterpret_cast<void*>(address);  // NOLINT: the driver's integer is a pointer
}

/// One CUDA device, by its primary context, which it shares with users of the CUDA runtime.
class cuda_device final : public accelerator {
 public:
  cuda_device(const detail::cuda& driver, int ordinal);

  void enter() override {
    refuse_after_fork(text_);
    require_success(driver_.push_context(context()), "cuCtxPushCurrent");
  }
  void leave() noexcept override {
    detail::cu::context previous = nullptr;
    driver_.pop_context(&previous);
  }

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
  void copy_all(std::span<const piece> what, stream on) override;
  void fill(void* to, std::uint8_t with, std::size_t bytes, stream on) override;
  void finish(stream which) override;
  bool is_capturing(stream which) override;
  void call(stream on, host_function what, void* with) override;
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
  int export_pages(void* base) override;
  void* map_pages(std::span<const pages> all) override;
  void access_pages(void* mapped, std::size_t bytes) override;
  void unmap_pages(void* mapped, std::size_t bytes) noexcept override;
  dma_buf export_dma_buf(const void* address, std::size_t bytes) override;
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
    explicit scoped_device(cuda_device& of) : of_(of), may_call_(of.driver_.exchange_capture_mode) {
      of.enter();
    }
    ~scoped_device() { of_.leave(); }
    scoped_device(const scoped_device&) = delete;
    scoped_device& operator=(const scoped_device&) = delete;

   private:
    cuda_device& of_;
    const relaxed_capture<detail::cu::capture_mode, detail::cu::result> may_call_;
  };

  /// For callers that must not throw: runs `what` with this device current; errors are ignored.
  template <class Function>
  void attempt_noexcept(Function what) noexcept {
    try {
      const scoped_device here(*this);
      what();
    } catch (const error&) {
    }
  }

  int attribute(int which);
  detail::cu::context context();
  detail::cu::context retain_context();
  void require_success(detail::cu::result status, std::string_view call) {
    check(driver_, status, call, text_);
  }

  const detail::cuda& driver_;
  detail::cu::device id_ = 0;
  std::string text_;
  std::mutex mutex_;
  std::atomic<detail::cu::context> context_{nullptr};
};

/// All devices that the driver reports, in its order (the driver applies CUDA_VISIBLE_DEVICES).
/// Creates no context: a context costs device memory and is created on first use.
/// @par Errors `device_failed` where the driver cannot count or describe them.
std::vector<std::unique_ptr<accelerator>> cuda_devices(const detail::cuda& driver);

}  // namespace tandem::devices
