#include "verbs/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs/abilities.hpp"
#include "verbs/adapter.hpp"

namespace tandem::verbs {
namespace {

/// Keeps the registration alive, and the device, which is released last.
struct lease final : rails::reached_memory {
  lease(std::shared_ptr<adapter> with, std::shared_ptr<owned_mr> of)
      : on(std::move(with)), mr(std::move(of)) {
    local_key = (*mr)->lkey;
    peer_key = (*mr)->rkey;
  }
  std::shared_ptr<adapter> on;
  std::shared_ptr<owned_mr> mr;
};

constexpr int for_both = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

bool contains(const mutable_view& all, const const_view& part) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(all.data);
  const auto at = reinterpret_cast<std::uintptr_t>(part.data);
  return all.kind == part.kind && all.device == part.device && at >= from &&
         part.bytes <= all.bytes && at - from <= all.bytes - part.bytes;
}

}  // namespace

owned_mr registry::register_memory(mutable_view what, const dmabuf& exported, memory_way how,
                                   int access) {
  const auto at = reinterpret_cast<std::uint64_t>(what.data);
  const int relaxed = access | IBV_ACCESS_RELAXED_ORDERING;
  if (how == memory_way::dmabuf) {
    return {driver_, driver_.reg_dmabuf_mr(domain_, exported.offset_bytes, what.bytes, at,
                                           exported.descriptor, relaxed)};
  }
  if (driver_.reg_mr_iova2 == nullptr) {
    return {driver_, driver_.reg_mr(domain_, what.data, what.bytes, access)};
  }
  return {driver_,
          driver_.reg_mr_iova2(domain_, what.data, what.bytes, at, static_cast<unsigned>(relaxed))};
}

void registry::add(id which, mutable_view memory, const dmabuf& exported) {
  entries_.push_front({which, memory, exported, nullptr, {}, false});
  ensure(entries_.front());
}

void registry::remove(id which) noexcept {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [which](const entry& one) { return one.which == which; });
  if (found == entries_.end()) return;
  forget(*found);
  entries_.erase(found);
}

void registry::forget(entry& which) noexcept {
  if (which.mr) registered_bytes_ -= which.memory.bytes;
  which.mr.reset();
}

/// A failed registration is tried again at the next use: memory may have been unlocked by then.
bool registry::ensure(entry& which) {
  if (which.mr || which.is_out_of_reach) return which.mr != nullptr;
  const memory_choice choice = find_memory_way(driver_, domain_, which.memory.kind,
                                               which.exported.descriptor >= 0, dmabuf_probe_);
  which.why = choice.why;
  which.is_out_of_reach = choice.how == memory_way::none;
  if (which.is_out_of_reach) return false;
  make_room(which.memory.bytes);
  owned_mr made = register_memory(which.memory, which.exported, choice.how, for_both);
  if (!made && errno == ENOMEM) {
    const bounds before = std::exchange(bounds_, bounds{0, 0});
    make_room(0);  // all that is idle
    bounds_ = before;
    made = register_memory(which.memory, which.exported, choice.how, for_both);
  }
  if (!made) {
    which.why = fmt::format("not {}: {}", choice.why, std::strerror(errno));
    return false;
  }
  which.mr = std::make_shared<owned_mr>(std::move(made));
  registered_bytes_ += which.memory.bytes;
  return true;
}

/// Evicts idle regions to fit one more of so many bytes. Those used by operations stay.
void registry::make_room(std::uint64_t bytes) {
  const std::size_t one = bytes > 0 ? 1 : 0;
  for (auto last = entries_.rbegin(); last != entries_.rend(); ++last) {
    const bool fits =
        registered_regions() + one <= bounds_.regions && registered_bytes_ + bytes <= bounds_.bytes;
    if (fits) return;
    if (last->mr && last->mr.use_count() == 1) forget(*last);
  }
}

std::size_t registry::registered_regions() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const entry& one) { return one.mr != nullptr; }));
}

std::string registry::describe(id which) const {
  for (const entry& one : entries_) {
    if (one.which != which) continue;
    const bool is_over = one.mr || one.is_out_of_reach;
    const std::string_view now = is_over ? "" : "; tried again at the next use";
    return fmt::format("{}: {}{}", device_, one.why, now);
  }
  return {};
}

/// The region that contains `what`, or null.
registry::entry* registry::find(const const_view& what) noexcept {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&what](const entry& one) { return contains(one.memory, what); });
  if (at == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at);
  return &*at;
}

bool registry::reaches(const const_view& what) {
  entry* const in = find(what);
  return in != nullptr && ensure(*in);
}

std::shared_ptr<const rails::reached_memory> registry::reach(mutable_view what, bool by_peer,
                                                             std::uint64_t least_bytes,
                                                             std::shared_ptr<adapter> on) {
  if (entry* const in = find(what)) {
    if (!ensure(*in)) return nullptr;
    return std::make_shared<lease>(std::move(on), in->mr);
  }
  if (what.kind != memory_kind::host || what.bytes < least_bytes) return nullptr;
  owned_mr made = register_memory(what, {}, memory_way::plain, by_peer ? for_both : 0);
  if (!made) return nullptr;
  auto kept = std::make_shared<owned_mr>(std::move(made));
  return std::make_shared<lease>(std::move(on), std::move(kept));
}

}  // namespace tandem::verbs
