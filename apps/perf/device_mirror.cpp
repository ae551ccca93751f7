#include "perf/device_mirror.hpp"

#include <cstring>
#include <tandem/accelerator.hpp>

namespace tandem::perf {

mutable_view device_mirror::on_device(std::span<std::byte> bytes) {
  for (const mirrored_buffer& each : buffers_) {
    if (each.bytes.data() == bytes.data() && each.bytes.size() == bytes.size()) {
      return each.device_buffer.view();
    }
  }
  mirrored_buffer& made =
      buffers_.emplace_back(mirrored_buffer{bytes, buffer(bytes.size(), at_.kind, at_.device)});
  copy(made, true);
  return made.device_buffer.view();
}

/// The host memory is pageable, which drivers copy through buffers of their own; this is not timed.
void device_mirror::copy(const mirrored_buffer& which, bool to_device) {
  if (which.bytes.empty()) return;
  accelerator& device = accelerator_at(at_.kind, at_.device);
  const device_stream on(device);
  if (to_device) {
    device.copy(which.device_buffer.data(), which.bytes.data(), which.bytes.size(), on.get());
  } else {
    device.copy(which.bytes.data(), which.device_buffer.data(), which.bytes.size(), on.get());
  }
  device.finish(on.get());
}

void device_mirror::upload() {
  for (const mirrored_buffer& each : buffers_) copy(each, true);
}

void device_mirror::download() {
  for (const mirrored_buffer& each : buffers_) copy(each, false);
}

}  // namespace tandem::perf
