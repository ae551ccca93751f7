#include "devices/exports.hpp"

#include <fmt/format.h>

#include <tandem/log.hpp>

namespace tandem::devices {
namespace {

std::uint64_t address_of(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}
void* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));  // NOLINT: never touched
}

}  // namespace

std::optional<shared_location> exports::find(accelerator& of, const const_view& view) {
  if (by_ == peer_access::none) return std::nullopt;
  const std::uint64_t number = of.allocation_id(view.data);
  if (number == 0) return std::nullopt;
  auto known = slots_.find(number);
  if (known != slots_.end() && !entries_[known->second].parts.empty() &&
      !covers(entries_[known->second], view, number)) {
    // Another entry that begins in the middle of this one leaves it alone.
    if (entries_[known->second].number == number) retire(known->second);
    known = slots_.end();
  }
  entry& e = known != slots_.end() ? entries_[known->second] : add(of, view, number);
  e.used = ++uses_;
  if (e.at != state::open) return std::nullopt;
  const std::uint64_t offset = address_of(view.data) - e.base;
  if (offset > e.bytes || view.bytes > e.bytes - offset) return std::nullopt;
  return shared_location{id_of(e), offset};
}

/// Whether the view lies in the pages of `e`, all of which are still those that were described.
/// @param number  the driver's of those in which the view begins
bool exports::covers(const entry& e, const const_view& view, std::uint64_t number) noexcept {
  const std::uint64_t first = address_of(view.data);
  if (first < e.base || first - e.base > e.bytes || view.bytes > e.bytes - (first - e.base)) {
    return false;
  }
  std::uint64_t at = e.base;
  for (const entry::part& each : e.parts) {
    if (at >= first + view.bytes) break;
    const bool is_before = at + each.bytes <= first;
    const bool is_first = !is_before && at <= first;
    if (!is_before && (is_first ? number : e.of->allocation_id(pointer_to(at))) != each.number) {
      return false;
    }
    at += each.bytes;
  }
  return true;
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
    if (by_ == peer_access::mapped && !describe_pages(e, view, *made.described)) {
      made.described->handle = of.share(all.base);
    }
    made.described->id = id_of(e);
    made.described->kind = of.kind();
    made.described->uuid = of.facts().uuid;
    made.described->base = e.base;
    made.described->bytes = e.bytes;
    for (const entry::part& each : e.parts) slots_[each.number] = slot;
    e.at = state::pending;
    updates_.push_back(std::move(made));
  } catch (const error& why) {
    e.parts.clear();
    e.descriptors.clear();
    mark_not_shareable(e, fmt::format("{}; memory of pools, and of cuMemCreate without a POSIX "
                                      "descriptor, cannot be shared",
                                      why.what()));
  }
  return e;
}

/// False: the memory is not of that kind.
bool exports::describe_pages(entry& e, const const_view& view, shared_allocation& made) {
  const std::uint64_t end = address_of(view.data) + view.bytes;
  std::uint64_t at = e.base, bytes = e.bytes;
  for (;; at += bytes) {
    if (at > e.base) {
      const accelerator::range next = e.of->allocation_of(pointer_to(at));
      bytes = next.bytes;
      if (address_of(next.base) != at || !e.of->owns(pointer_to(at))) {
        throw error(errc::unsupported_memory, "the view is in allocations of several kinds");
      }
    }
    detail::owned_descriptor exported(e.of->export_pages(pointer_to(at)));
    if (!exported.is_open() && at == e.base) return false;
    if (!exported.is_open() || e.parts.size() == max_described_pages) {
      throw error(errc::unsupported_memory,
                  fmt::format("the view is in more than {} allocations of pages", e.parts.size()));
    }
    e.parts.push_back({e.of->allocation_id(pointer_to(at)), bytes});
    made.pages.push_back({static_cast<std::uint32_t>(exported.get()), bytes});
    e.descriptors.push_back(std::move(exported));
    if (at + bytes >= end) break;
  }
  e.bytes = at + bytes - e.base;
  made.page_count = made.pages.size();
  set_owner_of_pages(made, shm::process_number::here());
  return true;
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
    log(log_level::debug, "devices",
        fmt::format("an allocation of {} bytes on {} is not shared any more", e.bytes,
                    e.of->text()));
    update gone;
    gone.retired = id_of(e);
    updates_.push_back(std::move(gone));
  }
  std::erase_if(slots_, [slot](const auto& each) { return each.second == slot; });
  const auto next = static_cast<std::uint16_t>(e.generation + 1);
  e = {};
  e.generation = next;
}

void exports::retire_freed() {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const entry& e = entries_[i];
    if (e.at == state::free) continue;
    if (e.base == 0) continue;
    const std::uint64_t now = e.of->allocation_id(pointer_to(e.base));
    const const_view all(pointer_to(e.base), static_cast<std::size_t>(e.bytes));
    if (now != e.number || (!e.parts.empty() && !covers(e, all, now))) retire(i);
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
    e->descriptors.clear();
    return true;
  }
  return slot_of(id) < entries_.size();
}

bool exports::refused(std::uint32_t id, const std::string& why) {
  if (entry* const e = find_pending(id)) {
    e->parts.clear();
    e->descriptors.clear();
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
