#include "doubles/hip/translation.hpp"

#include <array>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem::test::translation {
namespace {

struct named {
  amd::result code;
  const char* name;
};
constexpr std::array names{
    named{amd::success, "hipSuccess"},
    named{amd::invalid_value, "hipErrorInvalidValue"},
    named{amd::out_of_memory, "hipErrorOutOfMemory"},
    named{amd::not_initialized, "hipErrorNotInitialized"},
    named{4, "hipErrorDeinitialized"},
    named{amd::no_device, "hipErrorNoDevice"},
    named{amd::invalid_device, "hipErrorInvalidDevice"},
    named{amd::invalid_context, "hipErrorInvalidContext"},
    named{amd::no_binary_for_gpu, "hipErrorNoBinaryForGpu"},
    named{400, "hipErrorInvalidHandle"},
    named{amd::not_found, "hipErrorNotFound"},
    named{amd::not_ready, "hipErrorNotReady"},
    named{amd::illegal_address, "hipErrorIllegalAddress"},
    named{amd::peer_access_already_enabled, "hipErrorPeerAccessAlreadyEnabled"},
    named{amd::host_memory_already_registered, "hipErrorHostMemoryAlreadyRegistered"},
    named{amd::launch_failure, "hipErrorLaunchFailure"},
    named{amd::not_supported, "hipErrorNotSupported"},
    named{999, "hipErrorUnknown"},
};

const named* find(int code) noexcept {
  for (const named& each : names) {
    if (each.code == code) return &each;
  }
  return nullptr;
}

thread_local amd::result last = amd::success;

/// The primary contexts of one driver; another double has others.
struct contexts {
  std::mutex mutex;
  unsigned replacements = ~0U;
  std::vector<cu::context> of_device;

  cu::context get(const detail::cuda& in, int which) {
    const std::lock_guard lock(mutex);
    if (replacements != detail::cuda_replacements()) of_device.clear();
    replacements = detail::cuda_replacements();
    const auto index = static_cast<std::size_t>(which);
    if (of_device.size() <= index) of_device.resize(index + 1);
    if (of_device[index] == nullptr && in.retain_primary(&of_device[index], which) != cu::success) {
      of_device[index] = nullptr;
    }
    return of_device[index];
  }
};
contexts all;

}  // namespace

device_profile& profile() noexcept {
  static device_profile as;
  return as;
}

const detail::cuda* driver() {
  std::string why;
  return detail::find_cuda(why);
}

std::uint32_t& flush_register() noexcept {
  static std::uint32_t word = 0;
  return word;
}

int& device() noexcept {
  static thread_local int which = 0;
  return which;
}

amd::result keep(cu::result result) noexcept {
  if (result == cu::stub_library) return keep_own(amd::no_device);
  return keep_own(find(result) != nullptr ? result : 999);
}

amd::result keep_own(amd::result result) noexcept {
  if (result != amd::success) last = result;
  return result;
}

const detail::cuda* enter() noexcept {
  const detail::cuda* const in = driver();
  if (in == nullptr) return nullptr;
  const cu::context context = all.get(*in, device());
  return context != nullptr && in->push_context(context) == cu::success ? in : nullptr;
}

void leave(const detail::cuda& in) noexcept {
  cu::context was = nullptr;
  in.pop_context(&was);
}

}  // namespace tandem::test::translation

using namespace tandem::test::translation;

const char* hipGetErrorName(amd::result of) {
  const auto* const known = find(of);
  return known != nullptr ? known->name : "hipErrorUnknown";
}

const char* hipGetErrorString(amd::result of) {
  const char* text = nullptr;
  if (const auto* const in = driver()) in->error_string(of, &text);
  return text != nullptr ? text : hipGetErrorName(of);
}

amd::result hipGetLastError() {
  return std::exchange(last, amd::success);
}
