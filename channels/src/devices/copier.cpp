#include "devices/copier.hpp"

#include <fmt/format.h>

namespace tandem::devices {

copier::copier(const asio::any_io_executor& executor, accelerator& of)
    : watch_(executor, of), to_host_(of), to_device_(of) {}

accelerator::stream copier::stream_for(way which, std::size_t bytes) {
  if (which == way::to_host) return to_host_.get();
  if (which == way::to_device) return to_device_.get();
  const bool is_long = bytes >= long_copy_bytes;
  device_stream& next = from_peer_[is_long ? 0 : 1 + next_peer_stream_++ % (peer_streams - 1)];
  if (next.get() == nullptr) next = device_stream(of());
  return next.get();
}

void copier::copy(way which, void* to, const void* from, std::size_t bytes, device_wait& wait) {
  const accelerator::stream on = stream_for(which, bytes);
  of().copy(to, from, bytes, on);
  try {
    watch_.after(on, wait);
  } catch (const error&) {
    finish();
    throw;
  }
}

/// A device that fails touches nothing any more, either.
void copier::finish() noexcept {
  const auto finish_one = [this](const device_stream& each) {
    try {
      if (each.get() != nullptr) of().finish(each.get());
    } catch (const error&) {
    }
  };
  finish_one(to_host_);
  finish_one(to_device_);
  for (const device_stream& each : from_peer_) finish_one(each);
}

copier& copiers::of(const const_view& view) {
  for (const std::unique_ptr<copier>& each : all_) {
    const accelerator& has = each->of();
    if (has.kind() == view.kind && has.device() == view.device) return *each;
  }
  try {
    all_.push_back(std::make_unique<copier>(executor_, accelerator_of(view)));
  } catch (const error& why) {
    if (why.code() != errc::unsupported_memory) throw;
    error_context context = why.context();
    context.detail = fmt::format("memory of kind {}: {}", name(view.kind), context.detail);
    throw error(why.code(), std::move(context));
  }
  return *all_.back();
}

std::vector<memory_kind> copiers::kinds() {
  std::vector<memory_kind> all(1, memory_kind::host);
  for (const memory_kind kind : {memory_kind::cuda, memory_kind::hip}) {
    if (!find_accelerators(kind).found.empty()) all.push_back(kind);
  }
  return all;
}

}  // namespace tandem::devices
