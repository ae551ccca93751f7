#include "rails/device_bytes.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::rails {
namespace {

constexpr std::size_t at_once_bytes = 256 * 1024;

}  // namespace

device_bytes::engine::engine(accelerator& of) : on(of), stream(of), between(of, at_once_bytes) {}

device_bytes::engine& device_bytes::of(const const_view& view) {
  accelerator& wanted = accelerator_of(view);
  const auto found = std::find_if(engines_.begin(), engines_.end(),
                                  [&wanted](const engine& one) { return &one.on == &wanted; });
  return found != engines_.end() ? *found : engines_.emplace_back(wanted);
}

void device_bytes::fetch(const const_view& from, std::byte* to) {
  const engine& by = of(from);
  for (std::size_t done = 0; done < from.bytes;) {
    const const_view part = from.part(done, std::min(from.bytes - done, at_once_bytes));
    by.on.copy(by.between.data(), part.data, part.bytes, by.stream.get());
    by.on.finish(by.stream.get());
    std::memcpy(to + done, by.between.data(), part.bytes);
    done += part.bytes;
  }
}

void device_bytes::store(const std::byte* from, const mutable_view& to) {
  const engine& by = of(to);
  for (std::size_t done = 0; done < to.bytes;) {
    const mutable_view part = to.part(done, std::min(to.bytes - done, at_once_bytes));
    std::memcpy(by.between.data(), from + done, part.bytes);
    by.on.copy(part.data, by.between.data(), part.bytes, by.stream.get());
    by.on.finish(by.stream.get());
    done += part.bytes;
  }
}

}  // namespace tandem::rails
