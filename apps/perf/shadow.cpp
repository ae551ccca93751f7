#include "perf/shadow.hpp"

#include <cstring>
#include <tandem/accelerator.hpp>

namespace tandem::perf {

mutable_view shadow::on_device(std::span<std::byte> bytes) {
  for (const one& each : all_) {
    if (each.bytes.data() == bytes.data() && each.bytes.size() == bytes.size()) {
      return each.there.view();
    }
  }
  one& made = all_.emplace_back(one{bytes, buffer(bytes.size(), at_.kind, at_.device)});
  copy(made, true);
  return made.there.view();
}

/// The host memory is pageable, which drivers copy through buffers of their own; this is not timed.
void shadow::copy(const one& which, bool to_device) {
  if (which.bytes.empty()) return;
  accelerator& device = accelerator_at(at_.kind, at_.device);
  const device_stream on(device);
  if (to_device) {
    device.copy(which.there.data(), which.bytes.data(), which.bytes.size(), on.get());
  } else {
    device.copy(which.bytes.data(), which.there.data(), which.bytes.size(), on.get());
  }
  device.finish(on.get());
}

void shadow::up() {
  for (const one& each : all_) copy(each, true);
}

void shadow::down() {
  for (const one& each : all_) copy(each, false);
}

}  // namespace tandem::perf
