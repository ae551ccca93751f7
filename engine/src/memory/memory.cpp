#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>

namespace tandem {
namespace {
constexpr std::size_t alignment_bytes = 64;  // a cache line; the widest vector register
}

std::string_view name(memory_kind kind) noexcept {
  switch (kind) {
    case memory_kind::host:
      return "host";
    case memory_kind::cuda:
      return "cuda";
    case memory_kind::hip:
      return "hip";
  }
  return "unknown";
}

void buffer::release::operator()(std::byte* data) const noexcept {
  if (of != nullptr) {
    of->free(data);
  } else {
    std::free(data);
  }
}

buffer::buffer(std::size_t bytes, memory_kind kind, int device)
    : bytes_(bytes), kind_(kind), device_(device) {
  if (kind != memory_kind::host) {
    accelerator& of = accelerator_at(kind, device);
    data_ = {static_cast<std::byte*>(of.allocate(bytes)), release{&of}};
    const device_stream zeroing(of);
    of.fill(data_.get(), 0, bytes, zeroing.get());
    of.finish(zeroing.get());
    return;
  }
  if (bytes == 0) return;
  const std::size_t rounded = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  if (rounded < bytes) throw std::bad_alloc();
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment_bytes, rounded)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, rounded);
}

}  // namespace tandem
