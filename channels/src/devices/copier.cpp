#include "devices/copier.hpp"

#include <fmt/format.h>

namespace tandem::devices {

copier::copier(const asio::any_io_executor& executor, accelerator& of)
    : peer_(executor, of), watch_(executor, of), to_host_(of), to_device_(of) {}

void copier::copy(copy_kind which, void* to, const void* from, std::size_t bytes,
                  device_wait& wait) {
  if (which == copy_kind::to_peer || which == copy_kind::from_peer) {
    const auto where = which == copy_kind::to_peer ? peer_copies::direction::written
                                                   : peer_copies::direction::read;
    return peer_.copy(where, to, from, bytes, wait);
  }
  peer_.note_host_copy(which == copy_kind::to_host ? peer_copies::direction::written
                                                   : peer_copies::direction::read);
  const accelerator::stream on = which == copy_kind::to_host ? to_host_.get() : to_device_.get();
  of().copy(to, from, bytes, on);
  try {
    watch_.after(on, wait);
  } catch (const error&) {
    finish();
    throw;
  }
}

/// A failed device copies nothing any more, so its error is ignored.
void copier::finish() noexcept {
  for (const device_stream* const each : {&to_host_, &to_device_}) {
    try {
      of().finish(each->get());
    } catch (const error&) {
    }
  }
  peer_.finish();
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
