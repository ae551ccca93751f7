#include <fmt/format.h>

#include <mutex>
#include <tandem/accelerator.hpp>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/duration_text.hpp>

#include "accelerator/cuda_device.hpp"
#include "accelerator/hip_device.hpp"

namespace tandem {
namespace {

/// The devices of one driver. A replaced driver (tests) is probed anew.
struct probed_devices {
  std::vector<std::unique_ptr<accelerator>> devices;
  std::string why_none = "not probed";
  unsigned replacements = ~0U;

  /// @param find, list  of the driver @param now  how often the driver has been replaced
  template <class Find, class List>
  void probe(Find find, List list, unsigned now) {
    if (replacements == now) return;
    devices.clear();
    const auto* const driver = find(why_none);
    if (driver != nullptr) {
      const auto limit = detail::driver_timeout();
      auto listed = detail::call_within(limit, [driver, list] { return list(*driver); });
      why_none = listed ? "the driver reports no device"
                        : fmt::format("the driver has not listed its devices within {}",
                                      detail::to_text(limit));
      if (listed) devices = std::move(*listed);
      if (!devices.empty()) why_none.clear();
    }
    replacements = now;
  }
};

accelerators as_list(const probed_devices& of) {
  accelerators all;
  all.why_none = of.why_none;
  for (const std::unique_ptr<accelerator>& each : of.devices) all.found.push_back(each.get());
  return all;
}

std::mutex mutex;
probed_devices probed_cuda;
probed_devices probed_hip;

/// With the lock.
probed_devices& devices_of(memory_kind kind) {
  if (kind == memory_kind::hip) {
    probed_hip.probe(detail::find_hip, devices::hip_devices, detail::hip_replacements());
    return probed_hip;
  }
  probed_cuda.probe(detail::find_cuda, devices::cuda_devices, detail::cuda_replacements());
  return probed_cuda;
}

}  // namespace

std::string accelerator::text() const {
  const std::string which = fmt::format("{}:{}", tandem::name(facts_.kind), facts_.device);
  return facts_.name.empty() ? which : fmt::format("{} ({})", which, facts_.name);
}

void accelerator::copy_all(std::span<const piece> what, stream on) {
  for (const piece& each : what) copy(each.to, each.from, each.bytes, on);
}

int accelerator::export_pages(void* /*base*/) {
  return -1;
}

void* accelerator::map_pages(std::span<const pages> /*all*/) {
  throw error(errc::unsupported_memory, text() + " cannot map pages of other processes");
}

void accelerator::access_pages(void* /*mapped*/, std::size_t /*bytes*/) {
  throw error(errc::unsupported_memory, text() + " cannot map pages of other processes");
}

void accelerator::unmap_pages(void* /*mapped*/, std::size_t /*bytes*/) noexcept {}

accelerators find_accelerators(memory_kind kind) {
  const std::lock_guard lock(mutex);
  return as_list(devices_of(kind));
}

accelerator& accelerator_at(memory_kind kind, int device) {
  {
    const std::lock_guard lock(mutex);
    const probed_devices& of = devices_of(kind);
    const auto at = static_cast<std::size_t>(device);
    if (device >= 0 && at < of.devices.size()) return *of.devices[at];
  }
  const accelerators all = find_accelerators(kind);
  throw error(errc::unsupported_memory,
              all.found.empty() ? all.why_none
                                : fmt::format("no device {} of kind {}: there are {}", device,
                                              name(kind), all.found.size()),
              "`tandem devices` lists the devices; CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES may "
              "hide some");
}

int current_device(memory_kind kind) {
  std::string why_none;
  int device = 0;
  if (kind == memory_kind::hip) {
    const detail::hip* const driver = detail::find_hip(why_none);
    return driver != nullptr && driver->get_device(&device) == 0 ? device : 0;
  }
  const detail::cuda* const driver = detail::find_cuda(why_none);
  return driver != nullptr && driver->current_device(&device) == 0 ? device : 0;
}

}  // namespace tandem
