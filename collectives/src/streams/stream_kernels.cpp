#include "streams/stream_kernels.hpp"

#include <map>
#include <mutex>
#include <string>

#include "reduce/device_cache.hpp"

namespace tandem::detail {

std::shared_ptr<const stream_kernels> stream_kernels::of(accelerator& on) {
  static std::mutex mutex;
  static auto& all = *new std::map<const accelerator*, std::weak_ptr<const stream_kernels>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const stream_kernels>& known = all[&on];
  if (std::shared_ptr<const stream_kernels> there = known.lock()) return there;
  auto made = std::make_shared<const stream_kernels>(on);
  known = made;
  return made;
}

stream_kernels::stream_kernels(accelerator& on) : on_(on) {
  const std::string code =
      compile_kernels(std::string(device_text::stream_kernels), on.kind(), on.facts().architecture);
  module_ = on.load(code.data());
  try {
    carry_messages_ = on.find(module_, names[0]);
    carry_few_ = on.find(module_, names[1]);
    copy_staged_ = on.find(module_, names[2]);
  } catch (...) {
    on.unload(module_);
    throw;
  }
}

stream_kernels::~stream_kernels() {
  on_.unload(module_);
}

}  // namespace tandem::detail
