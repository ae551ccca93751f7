#include "accelerator/cuda_device.hpp"

#include <fmt/format.h>

#include <array>
#include <tandem/detail/blocking_call.hpp>
#include <utility>

namespace tandem::devices {
namespace {

namespace cu = detail::cu;

cu::stream cuda_stream(accelerator::stream handle) noexcept {
  return static_cast<cu::stream>(handle);
}
cu::event cuda_event(accelerator::event handle) noexcept {
  return static_cast<cu::event>(handle);
}

}  // namespace

cu::context cuda_device::context() {
  if (cu::context there = context_.load(std::memory_order_acquire)) return there;
  const std::lock_guard lock(mutex_);
  cu::context there = context_.load(std::memory_order_relaxed);
  if (there == nullptr) {
    there = retain_context();
    context_.store(there, std::memory_order_release);
  }
  return there;
}

/// On a thread of its own: making a context is the first thing that asks the device itself.
cu::context cuda_device::retain_context() {
  const auto retain = [&driver = driver_, id = id_] {
    cu::context there = nullptr;
    const cu::result status = driver.retain_primary(&there, id);
    return std::pair(status, there);
  };
  const auto [status, there] = detail::require_answer(
      fmt::format("cuDevicePrimaryCtxRetain of {}", text_), detail::driver_timeout(),
      "does the device hang (nvidia-smi, dmesg)? TANDEM_MEET_TIMEOUT_S is the time that it has",
      retain);
  require_success(status, "cuDevicePrimaryCtxRetain");
  return there;
}

void* cuda_device::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const scoped_device here(*this);
  cu::address into = 0;
  const cu::result status = driver_.allocate(&into, bytes);
  if (status != cu::success) require_success(status, fmt::format("cuMemAlloc({} bytes)", bytes));
  return pointer_to(into);
}

void cuda_device::free(void* which) noexcept {
  if (which == nullptr) return;
  attempt_noexcept([&] { driver_.free(address_of(which)); });
}

void* cuda_device::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const scoped_device here(*this);
  void* into = nullptr;
  const cu::result status =
      driver_.allocate_host(&into, bytes, cu::host_portable | cu::host_mapped);
  if (status != cu::success)
    require_success(status, fmt::format("cuMemHostAlloc({} bytes)", bytes));
  return into;
}

void cuda_device::free_pinned(void* which) noexcept {
  if (which == nullptr) return;
  attempt_noexcept([&] { driver_.free_host(which); });
}

void cuda_device::pin(void* from, std::size_t bytes) {
  const scoped_device here(*this);
  const cu::result status = driver_.register_host(from, bytes, cu::host_portable | cu::host_mapped);
  if (status != cu::success)
    require_success(status, fmt::format("cuMemHostRegister({} bytes)", bytes));
}

void cuda_device::unpin(void* from) noexcept {
  attempt_noexcept([&] { driver_.unregister_host(from); });
}

void* cuda_device::device_pointer(void* pinned) {
  const scoped_device here(*this);
  cu::address into = 0;
  require_success(driver_.host_address(&into, pinned, 0), "cuMemHostGetDevicePointer");
  return pointer_to(into);
}

accelerator::range cuda_device::allocation_of(const void* address) {
  const scoped_device here(*this);
  cu::address base = 0;
  range found;
  require_success(driver_.address_range(&base, &found.bytes, address_of(address)),
                  "cuMemGetAddressRange");
  found.base = pointer_to(base);
  return found;
}

std::uint64_t cuda_device::allocation_id(const void* address) noexcept {
  unsigned long long id = 0;
  const cu::address at = address_of(address);
  return driver_.pointer_attribute(&id, cu::pointer_buffer_id, at) == cu::success ? id : 0;
}

bool cuda_device::owns(const void* address) noexcept {
  bool is_owned = false;
  attempt_noexcept([&] {
    unsigned type = 0;
    int ordinal = -1;
    const cu::address at = address_of(address);
    is_owned = driver_.pointer_attribute(&type, cu::pointer_memory_type, at) == cu::success &&
               type == cu::memory_type_device &&
               driver_.pointer_attribute(&ordinal, cu::pointer_device_ordinal, at) == cu::success &&
               ordinal == device();
  });
  return is_owned;
}

accelerator::stream cuda_device::make_stream() {
  const scoped_device here(*this);
  cu::stream into = nullptr;
  require_success(driver_.create_stream(&into, cu::stream_non_blocking, 0),
                  "cuStreamCreateWithPriority");
  return into;
}

void cuda_device::free_stream(stream which) noexcept {
  attempt_noexcept([&] { driver_.destroy_stream(cuda_stream(which)); });
}

void cuda_device::copy(void* to, const void* from, std::size_t bytes, stream on) {
  if (bytes == 0) return;
  const scoped_device here(*this);
  const cu::result status = driver_.copy(address_of(to), address_of(from), bytes, cuda_stream(on));
  if (status != cu::success) require_success(status, fmt::format("cuMemcpyAsync({} bytes)", bytes));
}

void cuda_device::copy_all(std::span<const piece> what, stream on) {
  if (driver_.copy_many == nullptr || what.size() < 2) return accelerator::copy_all(what, on);
  constexpr std::size_t max_copies = 32;  // copies a call: their arguments are on the stack
  std::array<cu::address, max_copies> to, from;
  std::array<std::size_t, max_copies> bytes;
  const scoped_device here(*this);
  while (!what.empty()) {
    std::size_t count = 0;
    for (; !what.empty() && count < max_copies; what = what.subspan(1)) {
      if (what.front().bytes == 0) continue;  // the driver refuses empty copies
      to[count] = address_of(what.front().to);
      from[count] = address_of(what.front().from);
      bytes[count++] = what.front().bytes;
    }
    if (count == 0) return;
    cu::copy_attributes in_order{.source_order = cu::source_order_of_stream};
    std::size_t from_first = 0, failed = 0;
    const cu::result status =
        driver_.copy_many(to.data(), from.data(), bytes.data(), count, &in_order, &from_first, 1,
                          &failed, cuda_stream(on));
    if (status != cu::success)
      require_success(status, fmt::format("cuMemcpyBatchAsync({} copies)", count));
  }
}

void cuda_device::fill(void* to, std::uint8_t with, std::size_t bytes, stream on) {
  if (bytes == 0) return;
  const scoped_device here(*this);
  require_success(driver_.fill(address_of(to), with, bytes, cuda_stream(on)), "cuMemsetD8Async");
}

void cuda_device::finish(stream which) {
  const scoped_device here(*this);
  require_success(driver_.synchronize_stream(cuda_stream(which)), "cuStreamSynchronize");
}

bool cuda_device::is_capturing(stream which) {
  int status = 0;
  const auto ask = [&] { return driver_.is_capturing(cuda_stream(which), &status); };
  require_success(ask_of_stream<scoped_device>(*this, which, cu::invalid_context, ask),
                  "cuStreamIsCapturing");
  return status != 0;
}

void cuda_device::call(stream on, host_function what, void* with) {
  const scoped_device here(*this);
  require_success(driver_.launch_host(cuda_stream(on), what, with), "cuLaunchHostFunc");
}

void cuda_device::await_value(stream on, void* word, std::uint32_t value) {
  const scoped_device here(*this);
  require_success(driver_.wait_value(cuda_stream(on), address_of(word), value, cu::wait_value_geq),
                  "cuStreamWaitValue32");
}

void cuda_device::write_value(stream on, void* word, std::uint32_t value) {
  const scoped_device here(*this);
  require_success(driver_.write_value(cuda_stream(on), address_of(word), value, 0),
                  "cuStreamWriteValue32");
}

accelerator::event cuda_device::make_event() {
  const scoped_device here(*this);
  cu::event into = nullptr;
  require_success(driver_.create_event(&into, cu::event_disable_timing), "cuEventCreate");
  return into;
}

void cuda_device::free_event(event which) noexcept {
  attempt_noexcept([&] { driver_.destroy_event(cuda_event(which)); });
}

void cuda_device::record(event which, stream on) {
  const scoped_device here(*this);
  require_success(driver_.record_event(cuda_event(which), cuda_stream(on)), "cuEventRecord");
}

void cuda_device::await(stream which, event for_) {
  const scoped_device here(*this);
  require_success(driver_.wait_event(cuda_stream(which), cuda_event(for_), 0), "cuStreamWaitEvent");
}

bool cuda_device::is_complete(event which) {
  const scoped_device here(*this);
  const cu::result status = driver_.query_event(cuda_event(which));
  if (status == cu::not_ready) return false;
  require_success(status, "cuEventQuery");
  return true;
}

accelerator::module cuda_device::load(const void* image) {
  const scoped_device here(*this);
  cu::module into = nullptr;
  require_success(driver_.load_module(&into, image), "cuModuleLoadData");
  return into;
}

void cuda_device::unload(module which) noexcept {
  attempt_noexcept([&] { driver_.unload_module(static_cast<cu::module>(which)); });
}

accelerator::kernel cuda_device::find(module in, const char* name) {
  const scoped_device here(*this);
  cu::function into = nullptr;
  const cu::result status = driver_.find_function(&into, static_cast<cu::module>(in), name);
  if (status != cu::success) require_success(status, fmt::format("cuModuleGetFunction({})", name));
  return into;
}

void cuda_device::launch(kernel what, unsigned blocks, unsigned threads, unsigned shared_bytes,
                         stream on, void** arguments) {
  const scoped_device here(*this);
  require_success(driver_.launch(static_cast<cu::function>(what), blocks, 1, 1, threads, 1, 1,
                                 shared_bytes, cuda_stream(on), arguments, nullptr),
                  "cuLaunchKernel");
}

}  // namespace tandem::devices
