#include "device_kernels.hpp"

#include <algorithm>
#include <vector>

#include "device_cache.hpp"

namespace tandem::detail {
std::shared_ptr<device_kernels> device_kernels::of(accelerator& on) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<device_kernels>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& each) { return each.expired(); });
  for (const auto& each : all) {
    if (std::shared_ptr<device_kernels> there = each.lock(); there && &there->on_ == &on) {
      return there;
    }
  }
  auto made = std::make_shared<device_kernels>(on);
  all.push_back(made);
  return made;
}

device_kernels::~device_kernels() {
  for (of_type& each : types_) {
    if (each.module != nullptr) on_.unload(each.module);
  }
}

void device_kernels::load(data_type type, of_type& into) {
  const std::string code =
      compile_kernels(device_source(type), on_.kind(), on_.facts().architecture);
  const accelerator::module loaded = on_.load(code.data());
  // All now: the driver loads a kernel when it is looked for, and waits for those that run.
  const bool has_exchanges = has_exchange_kernels(on_.kind(), on_.facts().architecture);
  try {
    for (std::size_t i = 0; i < kernel_work_count; ++i) {
      const auto work = static_cast<kernel_work>(i);
      if (!has_kernel(type, work)) continue;
      into.kernels[i] = on_.find(loaded, kernel_name(type, work).c_str());
      if (!has_exchanges || !has_exchange_kernel(type, work)) continue;
      into.exchanges[i] = on_.find(loaded, exchange_kernel_name(type, work).c_str());
    }
  } catch (...) {
    on_.unload(loaded);
    throw;
  }
  into.module = loaded;
}

std::unique_lock<std::mutex> device_kernels::lock(of_type& kernels, data_type type) {
  std::unique_lock made(kernels.mutex);
  if (kernels.module == nullptr) load(type, kernels);
  return made;
}

accelerator::kernel device_kernels::find(data_type type, kernel_work work) {
  of_type& found = types_[static_cast<std::size_t>(type)];
  const auto locked = lock(found, type);
  return found.kernels[static_cast<std::size_t>(work)];
}

accelerator::kernel device_kernels::find_exchange(data_type type, kernel_work work) {
  of_type& found = types_[static_cast<std::size_t>(type)];
  const auto locked = lock(found, type);
  return found.exchanges[static_cast<std::size_t>(work)];
}

void device_kernels::launch(data_type type, kernel_work work, std::size_t count,
                            accelerator::stream stream, void** arguments) {
  // Enough blocks to have loads in flight on every multiprocessor, and few enough that launching
  // them costs little: eight blocks of 256 threads fill one multiprocessor.
  constexpr std::size_t threads = 256;
  constexpr std::size_t piece_bytes = 16;
  const std::size_t pieces = (count * bytes_of(type) + piece_bytes - 1) / piece_bytes;
  const auto most = static_cast<std::size_t>(std::max(on_.facts().multiprocessors, 1)) * 8;
  const std::size_t blocks = std::clamp<std::size_t>((pieces + threads - 1) / threads, 1, most);
  on_.launch(find(type, work), static_cast<unsigned>(blocks), threads, 0, stream, arguments);
}

void device_kernels::combine(data_type type, kernel_work work, void* into, const void* a,
                             const void* b, std::size_t count, accelerator::stream stream) {
  if (count == 0) return;
  unsigned long long elements = count;
  void* arguments[] = {&into, &a, &b, &elements};
  launch(type, work, count, stream, arguments);
}

void device_kernels::scale(data_type type, kernel_work work, void* into, const void* from,
                           std::size_t count, double by, accelerator::stream stream) {
  if (count == 0) return;
  unsigned long long elements = count;
  void* arguments[] = {&into, &from, &elements, &by};
  launch(type, work, count, stream, arguments);
}

}  // namespace tandem::detail
