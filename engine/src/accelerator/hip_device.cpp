#include "accelerator/hip_device.hpp"

#include <fmt/format.h>

#include <cstring>

#include "accelerator/driver_calls.hpp"

namespace tandem::devices {
namespace {

namespace amd = detail::amd;
using detail::hip;

amd::stream hip_stream(accelerator::stream handle) noexcept {
  return static_cast<amd::stream>(handle);
}
amd::event hip_event(accelerator::event handle) noexcept {
  return static_cast<amd::event>(handle);
}
/// The devices that were current on this thread before each `enter`. Trivially destructible: the
/// last buffers may be destroyed after the thread's own objects.
struct entered_devices {
  std::array<int, 16> previous;
  std::size_t depth;
};
constinit thread_local entered_devices entered{};

/// HIP takes non-const pointers where it only looks addresses up.
void* mutable_pointer(const void* pointer) noexcept {
  return const_cast<void*>(pointer);
}

}  // namespace

int hip_device::make_current() {
  refuse_after_fork(text_);
  int previous = 0;
  require_success(driver_.get_device(&previous), "hipGetDevice");
  if (previous != device()) require_success(driver_.set_device(device()), "hipSetDevice");
  return previous;
}

void hip_device::restore_current(int previous) noexcept {
  if (previous != device()) driver_.set_device(previous);
}

void hip_device::enter() {
  if (entered.depth == entered.previous.size()) {
    throw error(errc::bad_input, "too many nested calls of accelerator::enter on one thread");
  }
  entered.previous[entered.depth] = make_current();
  ++entered.depth;
}

void hip_device::leave() noexcept {
  if (entered.depth > 0) restore_current(entered.previous[--entered.depth]);
}

void* hip_device::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const scoped_device here(*this);
  void* into = nullptr;
  const amd::result status = driver_.allocate(&into, bytes);
  if (status != amd::success) require_success(status, fmt::format("hipMalloc({} bytes)", bytes));
  return into;
}

void hip_device::free(void* which) noexcept {
  if (which == nullptr) return;
  attempt_noexcept([&] { return driver_.free(which); });
}

void* hip_device::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const scoped_device here(*this);
  void* into = nullptr;
  const amd::result status = driver_.allocate_host(
      &into, bytes, amd::host_portable | amd::host_mapped | amd::host_coherent);
  if (status != amd::success)
    require_success(status, fmt::format("hipHostMalloc({} bytes)", bytes));
  return into;
}

void hip_device::free_pinned(void* which) noexcept {
  if (which == nullptr) return;
  attempt_noexcept([&] { return driver_.free_host(which); });
}

void hip_device::pin(void* from, std::size_t bytes) {
  const scoped_device here(*this);
  const amd::result status =
      driver_.register_host(from, bytes, amd::host_portable | amd::host_mapped);
  if (status != amd::success)
    require_success(status, fmt::format("hipHostRegister({} bytes)", bytes));
}

void hip_device::unpin(void* from) noexcept {
  attempt_noexcept([&] { return driver_.unregister_host(from); });
}

void* hip_device::device_pointer(void* pinned) {
  const scoped_device here(*this);
  void* into = nullptr;
  require_success(driver_.host_address(&into, pinned, 0), "hipHostGetDevicePointer");
  return into;
}

accelerator::range hip_device::allocation_of(const void* address) {
  const scoped_device here(*this);
  range found;
  require_success(driver_.address_range(&found.base, &found.bytes, mutable_pointer(address)),
                  "hipMemGetAddressRange");
  return found;
}

std::uint64_t hip_device::allocation_id(const void* address) noexcept {
  unsigned long long id = 0;
  const bool known = attempt_noexcept([&] {
    return driver_.pointer_attribute(&id, amd::pointer_buffer_id, mutable_pointer(address));
  });
  return known ? id : 0;
}

bool hip_device::owns(const void* address) noexcept {
  int type = 0;
  int ordinal = -1;
  return attempt_noexcept([&] {
           return driver_.pointer_attribute(&type, amd::pointer_memory_type,
                                            mutable_pointer(address));
         }) &&
         type == amd::memory_type_device(major_) && attempt_noexcept([&] {
           return driver_.pointer_attribute(&ordinal, amd::pointer_device_ordinal,
                                            mutable_pointer(address));
         }) &&
         ordinal == device();
}

accelerator::stream hip_device::make_stream() {
  const scoped_device here(*this);
  constexpr int highest = -1;  // of -1, 0 and 1; clamped to what the device has
  amd::stream into = nullptr;
  require_success(driver_.create_stream(&into, amd::stream_non_blocking, highest),
                  "hipStreamCreateWithPriority");
  return into;
}

void hip_device::free_stream(stream which) noexcept {
  attempt_noexcept([&] { return driver_.destroy_stream(hip_stream(which)); });
}

void hip_device::copy(void* to, const void* from, std::size_t bytes, stream on) {
  if (bytes == 0) return;
  const scoped_device here(*this);
  const amd::result status = driver_.copy(to, from, bytes, amd::copy_any, hip_stream(on));
  if (status != amd::success)
    require_success(status, fmt::format("hipMemcpyAsync({} bytes)", bytes));
}

void hip_device::fill(void* to, std::uint8_t with, std::size_t bytes, stream on) {
  if (bytes == 0) return;
  const scoped_device here(*this);
  require_success(driver_.fill(to, with, bytes, hip_stream(on)), "hipMemsetAsync");
}

void hip_device::finish(stream which) {
  const scoped_device here(*this);
  require_success(driver_.synchronize_stream(hip_stream(which)), "hipStreamSynchronize");
}

bool hip_device::is_capturing(stream which) {
  int status = 0;
  const auto ask = [&] { return driver_.is_capturing(hip_stream(which), &status); };
  require_success(ask_of_stream<scoped_device>(*this, which, amd::invalid_context, ask),
                  "hipStreamIsCapturing");
  return status != 0;
}

void hip_device::call(stream on, host_function what, void* with) {
  const scoped_device here(*this);
  require_success(driver_.launch_host(hip_stream(on), what, with), "hipLaunchHostFunc");
}

void hip_device::await_value(stream on, void* word, std::uint32_t value) {
  const scoped_device here(*this);
  require_success(driver_.wait_value(hip_stream(on), word, value, amd::wait_value_geq, ~0U),
                  "hipStreamWaitValue32");
}

void hip_device::write_value(stream on, void* word, std::uint32_t value) {
  const scoped_device here(*this);
  require_success(driver_.write_value(hip_stream(on), word, value, 0), "hipStreamWriteValue32");
}

/// Released to system scope: a NIC, which does not snoop the device's caches, may read the memory
/// that the event covers.
accelerator::event hip_device::make_event() {
  const scoped_device here(*this);
  amd::event into = nullptr;
  require_success(
      driver_.create_event(&into, amd::event_disable_timing | amd::event_release_to_system),
      "hipEventCreateWithFlags");
  return into;
}

void hip_device::free_event(event which) noexcept {
  attempt_noexcept([&] { return driver_.destroy_event(hip_event(which)); });
}

void hip_device::record(event which, stream on) {
  const scoped_device here(*this);
  require_success(driver_.record_event(hip_event(which), hip_stream(on)), "hipEventRecord");
}

void hip_device::await(stream which, event for_) {
  const scoped_device here(*this);
  require_success(driver_.wait_event(hip_stream(which), hip_event(for_), 0), "hipStreamWaitEvent");
}

bool hip_device::is_complete(event which) {
  const scoped_device here(*this);
  const amd::result status = driver_.query_event(hip_event(which));
  if (status == amd::not_ready) {
    driver_.last_error();
    return false;
  }
  require_success(status, "hipEventQuery");
  return true;
}

accelerator::module hip_device::load(const void* image) {
  const scoped_device here(*this);
  amd::module into = nullptr;
  require_success(driver_.load_module(&into, image), "hipModuleLoadData");
  return into;
}

void hip_device::unload(module which) noexcept {
  attempt_noexcept([&] { return driver_.unload_module(static_cast<amd::module>(which)); });
}

accelerator::kernel hip_device::find(module in, const char* name) {
  const scoped_device here(*this);
  amd::function into = nullptr;
  const amd::result status = driver_.find_function(&into, static_cast<amd::module>(in), name);
  if (status != amd::success)
    require_success(status, fmt::format("hipModuleGetFunction({})", name));
  return into;
}

void hip_device::launch(kernel what, unsigned blocks, unsigned threads, unsigned shared_bytes,
                        stream on, void** arguments) {
  const scoped_device here(*this);
  require_success(driver_.launch(static_cast<amd::function>(what), blocks, 1, 1, threads, 1, 1,
                                 shared_bytes, hip_stream(on), arguments, nullptr),
                  "hipModuleLaunchKernel");
}

}  // namespace tandem::devices
