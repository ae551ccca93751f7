#include "transports/rails/device_copier.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::rails {
namespace {

constexpr std::size_t bounce_bytes = 256 * 1024;

}  // namespace

device_copier::engine::engine(accelerator& of) : on(of), stream(of), bounce(of, bounce_bytes) {}

device_copier::engine& device_copier::of(const const_view& view) {
  const auto found = std::find_if(engines_.begin(), engines_.end(), [&view](const engine& one) {
    return one.on.kind() == view.kind && one.on.device() == view.device;
  });
  return found != engines_.end() ? *found : engines_.emplace_back(accelerator_of(view));
}

void device_copier::fetch(const const_view& from, std::byte* to) {
  const engine& by = of(from);
  for (std::size_t done = 0; done < from.bytes;) {
    const const_view part = from.part(done, std::min(from.bytes - done, bounce_bytes));
    by.on.copy(by.bounce.data(), part.data, part.bytes, by.stream.get());
    by.on.finish(by.stream.get());
    std::memcpy(to + done, by.bounce.data(), part.bytes);
    done += part.bytes;
  }
}

void device_copier::store(const std::byte* from, const mutable_view& to) {
  const engine& by = of(to);
  for (std::size_t done = 0; done < to.bytes;) {
    const mutable_view part = to.part(done, std::min(to.bytes - done, bounce_bytes));
    std::memcpy(by.bounce.data(), from + done, part.bytes);
    by.on.copy(part.data, by.bounce.data(), part.bytes, by.stream.get());
    by.on.finish(by.stream.get());
    done += part.bytes;
  }
}

}  // namespace tandem::rails
