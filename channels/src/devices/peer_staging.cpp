#include "devices/peer_staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "protocol/frame.hpp"

namespace tandem::devices {
namespace {

using protocol::put;
using protocol::take;

std::size_t index_of(std::uint32_t id) noexcept {
  return id - first_staging_id;
}

}  // namespace

/// The handle, little endian: process u32, descriptor u32, inode u64.
shared_allocation describe_staging(std::uint32_t id, const shared_pages::location& where) {
  shared_allocation made;
  made.id = id;
  made.kind = memory_kind::host;
  made.bytes = where.bytes;
  put<std::uint32_t>(made.handle.data(), where.process);
  put<std::uint32_t>(made.handle.data() + 4, where.descriptor);
  put<std::uint64_t>(made.handle.data() + 8, where.inode);
  return made;
}

shared_pages::location staging_location(const shared_allocation& described) noexcept {
  const std::byte* const p = described.handle.data();
  return {take<std::uint32_t>(p), take<std::uint32_t>(p + 4), take<std::uint64_t>(p + 8),
          described.bytes};
}

bool peer_staging::describe(const shared_allocation& what, std::string& why) {
  if (what.kind != memory_kind::host || what.bytes != bytes_ || entries_[index_of(what.id)]) {
    why = fmt::format("staging {:#x} of {} bytes; expected {}, once", what.id, what.bytes, bytes_);
    return false;
  }
  entry described;
  described.what = what;
  entries_[index_of(what.id)] = std::move(described);
  return true;
}

const std::shared_ptr<const pinned_pages>& peer_staging::pin(entry& of, accelerator& by) {
  std::shared_ptr<const pinned_pages>& pinned = of.pinned[vendor_index(by.kind())];
  if (pinned) return pinned;
  if (!of.pages) of.pages = std::make_shared<shared_pages>(staging_location(of.what));
  pinned = std::make_shared<pinned_pages>(by, of.pages);
  return pinned;
}

bool peer_staging::has_unanswered() const noexcept {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& each) { return each && !each->is_answered; });
}

bool peer_staging::next(accelerator& default_device, imports::answer& into) {
  for (std::optional<entry>& each : entries_) {
    if (!each || each->is_answered) continue;
    each->is_answered = true;
    into = {each->what.id, {}};
    try {
      pin(*each, default_device);
    } catch (const error& failed) {
      into.why = failed.what();
    }
    return true;
  }
  return false;
}

std::optional<imports::source> peer_staging::find(const shared_location& at, std::uint64_t bytes,
                                                  accelerator& by, std::string& why) {
  std::optional<entry>& found = entries_[index_of(at.allocation)];
  if (!found) {
    why = fmt::format("a reference into staging {:#x}, which is not described", at.allocation);
    return std::nullopt;
  }
  if (at.offset > found->what.bytes || bytes > found->what.bytes - at.offset) {
    why = fmt::format("a reference to {} bytes at {} of staging of {}", bytes, at.offset,
                      found->what.bytes);
    return std::nullopt;
  }
  const std::shared_ptr<const pinned_pages>& pinned = pin(*found, by);
  return imports::source{pinned->device_address() + at.offset, pinned,
                         pinned->host_address() + at.offset};
}

}  // namespace tandem::devices
