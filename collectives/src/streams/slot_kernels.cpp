#include "streams/slot_kernels.hpp"

#include <map>
#include <mutex>
#include <string>

#include "reduce/device_cache.hpp"

namespace tandem::detail {

std::shared_ptr<const slot_kernels> slot_kernels::of(accelerator& on) {
  static std::mutex mutex;
  static auto& all = *new std::map<const accelerator*, std::weak_ptr<const slot_kernels>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const slot_kernels>& known = all[&on];
  if (std::shared_ptr<const slot_kernels> there = known.lock()) return there;
  auto made = std::make_shared<const slot_kernels>(on);
  known = made;
  return made;
}

slot_kernels::slot_kernels(accelerator& on) : on_(on) {
  const std::string code =
      compile_kernels(std::string(device_text::slot_kernel), on.kind(), on.facts().architecture);
  module_ = on.load(code.data());
  try {
    carry_messages_ = on.find(module_, name);
  } catch (...) {
    on.unload(module_);
    throw;
  }
}

slot_kernels::~slot_kernels() {
  on_.unload(module_);
}

}  // namespace tandem::detail
