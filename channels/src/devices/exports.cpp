#include "devices/exports.hpp"

#include <fmt/format.h>

#include <tandem/log.hpp>

namespace tandem::devices {
namespace {

std::uint64_t address_of(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

std::optional<shared_location> exports::find(accelerator& of, const const_view& view) {
  if (by_ == peer_access::none) return std::nullopt;
  const std::uint64_t number = of.allocation_id(view.data);
  if (number == 0) return std::nullopt;
  const auto known = slots_.find(number);
  entry& e = known != slots_.end() ? entries_[known->second] : add(of, view, number);
  e.used = ++uses_;
  if (e.at != state::open) return std::nullopt;
  const std::uint64_t offset = address_of(view.data) - e.base;
  if (offset > e.bytes || view.bytes > e.bytes - offset) return std::nullopt;
  return shared_location{id_of(e), offset};
}

exports::entry& exports::add(accelerator& of, const const_view& view, std::uint64_t number) {
  retire_freed();
  const std::uint32_t slot = take_slot();
  entry& e = entries_[slot];
  e.of = &of;
  e.number = number;
  slots_[number] = slot;
  try {
    const accelerator::range all = of.allocation_of(view.data);
    e.base = address_of(all.base);
    e.bytes = all.bytes;
    update made;
    made.described.emplace();
    if (by_ == peer_access::mapped) made.described->handle = of.share(all.base);
    made.described->id = id_of(e);
    made.described->kind = of.kind();
    made.described->uuid = of.facts().uuid;
    made.described->base = e.base;
    made.described->bytes = e.bytes;
    e.at = state::pending;
    updates_.push_back(std::move(made));
  } catch (const error& why) {
    mark_not_shareable(
        e, fmt::format("{}; memory of expandable segments (PyTorch), of cuMemCreate and of "
                       "memory pools cannot be shared",
                       why.what()));
  }
  return e;
}

/// Not retried for this allocation.
void exports::mark_not_shareable(entry& e, std::string_view why) {
  e.at = state::not_shareable;
  log(log_level::info, "devices",
      fmt::format("messages from an allocation of {} bytes on {} are forwarded through the host: "
                  "{}",
                  e.bytes, e.of->text(), why));
}

std::uint32_t exports::take_slot() {
  std::uint32_t oldest = 0;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].at == state::free) return i;
    if (entries_[i].used < entries_[oldest].used) oldest = i;
  }
  if (entries_.size() < max_entries_) {
    entries_.emplace_back();
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  retire(oldest);
  return oldest;
}

/// References in flight were sent before, so the peer can still resolve them.
void exports::retire(std::uint32_t slot) {
  entry& e = entries_[slot];
  if (e.at == state::pending || e.at == state::open) {
    update gone;
    gone.retired = id_of(e);
    updates_.push_back(std::move(gone));
  }
  slots_.erase(e.number);
  const auto next = static_cast<std::uint16_t>(e.generation + 1);
  e = {};
  e.generation = next;
}

void exports::retire_freed() {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const entry& e = entries_[i];
    if (e.at == state::free) continue;
    const auto* const base = reinterpret_cast<const void*>(e.base);  // NOLINT: never touched
    if (e.base != 0 && e.of->allocation_id(base) != e.number) retire(i);
  }
}

bool exports::next(update& into) {
  if (updates_.empty()) return false;
  into = std::move(updates_.front());
  updates_.pop_front();
  return true;
}

exports::entry* exports::find_pending(std::uint32_t id) noexcept {
  const std::uint32_t slot = slot_of(id);
  if (slot >= entries_.size()) return nullptr;
  entry& e = entries_[slot];
  return e.at == state::pending && id_of(e) == id ? &e : nullptr;
}

bool exports::opened(std::uint32_t id) {
  if (entry* const e = find_pending(id)) {
    e->at = state::open;
    return true;
  }
  return slot_of(id) < entries_.size();
}

bool exports::refused(std::uint32_t id, const std::string& why) {
  if (entry* const e = find_pending(id)) {
    mark_not_shareable(*e, "the peer cannot open it: " + why);
    return true;
  }
  return slot_of(id) < entries_.size();
}

std::size_t exports::described() const noexcept {
  std::size_t count = 0;
  for (const entry& e : entries_) count += e.at == state::pending || e.at == state::open ? 1 : 0;
  return count;
}

}  // namespace tandem::devices
