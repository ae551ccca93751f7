#include "support/device_mirror.hpp"

#include <tandem/accelerator.hpp>
#include <utility>

#include "reduce/device_source.hpp"
#include "support/device_kernels.hpp"

namespace tandem::test {
namespace {

cuda_double::options late_by_chance(int devices) {
  cuda_double::options as;
  as.devices = devices;
  as.max_delay = std::chrono::microseconds(20);
  return as;
}

/// The host address of device memory, as the double stores it.
void* bytes_at(cuda_double& gpus, void* argument, std::size_t bytes) {
  const auto address = reinterpret_cast<cu::address>(*static_cast<void**>(argument));
  return gpus.host(address, bytes);
}

void add_kernels(cuda_double& gpus) {
  for (std::size_t type = 0; type < detail::data_type_count; ++type) {
    const auto of = static_cast<data_type>(type);
    for (std::size_t i = 0; i < detail::kernel_work_count; ++i) {
      const auto work = static_cast<detail::kernel_work>(i);
      if (!detail::has_kernel(of, work)) continue;
      const bool scales =
          work == detail::kernel_work::multiply || work == detail::kernel_work::divide;
      const std::string name = detail::kernel_name(of, work);
      const kernel_on_host run = kernels_on_host().at(name);
      gpus.add_kernel(name, {8, 8, 8, 8},
                      [=](unsigned blocks, unsigned threads, void** given, cuda_double& in) {
                        const std::size_t at = scales ? 2 : 3;
                        const auto count = *static_cast<unsigned long long*>(given[at]);
                        void* addresses[3];
                        void* arguments[4] = {given[0], given[1], given[2], given[3]};
                        for (std::size_t k = 0; k < at; ++k) {
                          addresses[k] = bytes_at(in, given[k], count * bytes_of(of));
                          arguments[k] = &addresses[k];
                        }
                        run(blocks, threads, arguments);
                      });
    }
  }
}

void copy_now(accelerator& on, void* to, const void* from, std::size_t bytes) {
  const device_stream stream(on);
  on.copy(to, from, bytes, stream.get());
  on.finish(stream.get());
}

}  // namespace

devices_with_kernels::devices_with_kernels() : devices_with_kernels(2) {}

devices_with_kernels::devices_with_kernels(int devices)
    : devices_with_kernels(late_by_chance(devices)) {}

devices_with_kernels::devices_with_kernels(cuda_double::options as) : gpus(std::move(as)) {
  add_kernels(gpus);
}

mutable_view device_mirror::there(mutable_view here) {
  if (here.bytes == 0) return here;
  auto* const first = static_cast<std::byte*>(here.data);
  for (const copy& each : copies_) {
    if (first < each.here || first + here.bytes > each.here + each.there.size()) continue;
    return each.there.view().part(static_cast<std::size_t>(first - each.here), here.bytes);
  }
  copies_.push_back({first, buffer(here.bytes, memory_kind::cuda, device_)});
  const mutable_view made = copies_.back().there.view();
  copy_now(accelerator_of(made), made.data, here.data, here.bytes);
  return made;
}

const_view device_mirror::there(const_view here) {
  return there(mutable_view(const_cast<void*>(here.data), here.bytes));
}

void device_mirror::copy_back() {
  for (const copy& each : copies_) {
    const mutable_view from = each.there.view();
    copy_now(accelerator_of(from), each.here, from.data, from.bytes);
  }
  copies_.clear();
}

}  // namespace tandem::test
