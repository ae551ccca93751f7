#include "devices/imports.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::devices {
namespace {

/// Null: the device is not visible to this process.
accelerator* find_device(memory_kind kind, const std::string& uuid) {
  for (accelerator* const each : find_accelerators(kind).found) {
    if (each->facts().uuid == uuid) return each;
  }
  return nullptr;
}

/// Throws where `by` has no peer access. For a device that is not visible here the driver decides.
/// @param how  memory that is mapped needs no context on the other device
void require_peer_access(accelerator& by, const shared_allocation& what, peer_access how) {
  if (by.kind() != what.kind) {
    throw error(errc::unsupported_memory,
                fmt::format("{} cannot read memory of kind {}", by.text(), name(what.kind)));
  }
  accelerator* const owner = find_device(what.kind, what.uuid);
  if (owner == nullptr) return;
  if (by.can_access_peer(owner->device())) {
    if (how == peer_access::same_process) by.enable_peer_access(owner->device());
    return;
  }
  throw error(errc::unsupported_memory,
              fmt::format("{}:{} and {}:{} have no peer access", name(by.kind()), by.device(),
                          name(owner->kind()), owner->device()),
              "GPUs on one PCIe switch or NVLink have it; an IOMMU or a container may forbid "
              "it");
}

}  // namespace

imports::entry* imports::find_entry(std::uint32_t id) noexcept {
  const std::uint32_t slot = slot_of(id);
  if (slot >= entries_.size() || !entries_[slot] || entries_[slot]->what.id != id) return nullptr;
  return entries_[slot].get();
}

bool imports::describe(const shared_allocation& what, std::string& why) {
  const std::uint32_t slot = slot_of(what.id);
  if (by_ == peer_access::none || slot >= max_shared_allocations) {
    why = fmt::format("an allocation {:#x} that this end cannot read", what.id);
    return false;
  }
  if (slot >= entries_.size()) entries_.resize(slot + 1);
  if (entries_[slot]) {
    why = fmt::format("allocation {:#x} in the slot of {:#x}", what.id, entries_[slot]->what.id);
    return false;
  }
  entries_[slot] = std::make_unique<entry>();
  entries_[slot]->what = what;
  if (what.page_count == 0) unanswered_.push_back(what.id);
  return true;
}

bool imports::add_pages(std::uint32_t id, std::span<const described_pages> more, std::string& why) {
  entry* const to = find_entry(id);
  const std::size_t left = to == nullptr ? 0 : to->what.page_count - to->what.pages.size();
  if (left < more.size()) {
    why = fmt::format("{} pages of allocation {:#x}, of which {} are left", more.size(), id, left);
    return false;
  }
  std::vector<described_pages>& all = to->what.pages;
  all.insert(all.end(), more.begin(), more.end());
  if (left > more.size()) return true;
  std::uint64_t bytes = 0;
  bool is_sound = true;
  for (const described_pages& each : all) {
    is_sound = is_sound && each.bytes > 0;
    bytes += each.bytes;
  }
  if (!is_sound || bytes != to->what.bytes) {
    why = fmt::format("{} bytes in the pages of allocation {:#x} of {}", bytes, id, to->what.bytes);
    return false;
  }
  unanswered_.push_back(id);
  return true;
}

bool imports::retire(std::uint32_t id, std::string& why) {
  if (find_entry(id) == nullptr) {
    // One that could not be opened is already gone here: the retirement crossed the refusal.
    if (by_ != peer_access::none && slot_of(id) < entries_.size()) return true;
    why = fmt::format("retirement of allocation {:#x}, which was never described", id);
    return false;
  }
  std::erase(unanswered_, id);
  entries_[slot_of(id)].reset();
  return true;
}

bool imports::next(accelerator& default_device, answer& into) {
  if (unanswered_.empty()) return false;
  into = {unanswered_.front(), {}};
  unanswered_.pop_front();
  try {
    map(*find_entry(into.id), default_device);
  } catch (const error& failed) {
    into.why = failed.what();
    entries_[slot_of(into.id)].reset();
  }
  return true;
}

const std::shared_ptr<const mapping>& imports::map(entry& of, accelerator& by) {
  const auto known = of.maps.find(&by);
  if (known != of.maps.end()) return known->second;
  require_peer_access(by, of.what, by_);
  std::shared_ptr<const mapping> made;
  if (by_ == peer_access::mapped) {
    made = of.what.pages.empty() ? map_shared(by, of.what.handle) : map_pages(of, by);
  }
  return of.maps.emplace(&by, std::move(made)).first->second;
}

/// One mapping for all devices here: the descriptors are there for the first one only.
std::shared_ptr<const mapping> imports::map_pages(const entry& of, accelerator& by) {
  if (!of.maps.empty()) {
    of.maps.begin()->second->let_access(by);
    return of.maps.begin()->second;
  }
  std::vector<std::uint32_t> which;
  for (const described_pages& each : of.what.pages) which.push_back(each.descriptor);
  const auto copied = shm::copy_descriptors(owner_of_pages(of.what), which);
  std::vector<accelerator::pages> all;
  for (std::size_t i = 0; i < copied.size(); ++i) {
    all.push_back({copied[i].get(), static_cast<std::size_t>(of.what.pages[i].bytes)});
  }
  return devices::map_pages(by, all);
}

std::optional<imports::source> imports::find(const shared_location& at, std::uint64_t bytes,
                                             accelerator& by, std::string& why) {
  entry* const found = find_entry(at.allocation);
  if (found == nullptr) {
    why = fmt::format("a reference into allocation {:#x}, which is not described", at.allocation);
    return std::nullopt;
  }
  if (found->what.pages.size() < found->what.page_count) {
    why = fmt::format("a reference into allocation {:#x}, of whose {} pages {} are described",
                      at.allocation, found->what.page_count, found->what.pages.size());
    return std::nullopt;
  }
  if (at.offset > found->what.bytes || bytes > found->what.bytes - at.offset) {
    why = fmt::format("a reference to {} bytes at {} of an allocation of {}", bytes, at.offset,
                      found->what.bytes);
    return std::nullopt;
  }
  const std::shared_ptr<const mapping>& keep = map(*found, by);
  const auto* const base = keep ? keep->base()
                                : reinterpret_cast<const std::byte*>(  // NOLINT: of this process
                                      static_cast<std::uintptr_t>(found->what.base));
  return source{base + at.offset, keep, nullptr};
}

void imports::clear() noexcept {
  unanswered_.clear();
  entries_.clear();
}

std::size_t imports::open() const noexcept {
  std::size_t count = 0;
  for (const auto& each : entries_) count += each ? each->maps.size() : 0;
  return count;
}

}  // namespace tandem::devices
