#include "transports/rails/verbs/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <tandem/detail/resources.hpp>
#include <utility>

#include "transports/rails/verbs/adapter.hpp"
#include "transports/rails/verbs/capabilities.hpp"

namespace tandem::verbs {
namespace {

/// Keeps the registration alive, and the device, which is released last.
struct held_registration final : rails::registered_memory {
  held_registration(std::shared_ptr<adapter> with, std::shared_ptr<owned_mr> region)
      : on(std::move(with)), of_region(std::move(region)) {
    use((*of_region).get());
  }
  held_registration(std::shared_ptr<adapter> with, owned_mr message)
      : on(std::move(with)), of_message(std::move(message)) {
    use(of_message.get());
  }
  void use(const ibv_mr* mr) noexcept {
    local_key = mr->lkey;
    remote_key = mr->rkey;
  }
  std::shared_ptr<adapter> on;
  std::shared_ptr<owned_mr> of_region;  ///< null: of one message
  owned_mr of_message;
};

constexpr int for_both = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

bool contains(const mutable_view& all, const const_view& part) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(all.data);
  const auto at = reinterpret_cast<std::uintptr_t>(part.data);
  return all.kind == part.kind && all.device == part.device && at >= from &&
         part.bytes <= all.bytes && at - from <= all.bytes - part.bytes;
}

}  // namespace

owned_mr registry::register_memory(mutable_view what, const dmabuf& exported,
                                   registration_method how, int access) {
  const auto at = reinterpret_cast<std::uint64_t>(what.data);
  const int relaxed = access | IBV_ACCESS_RELAXED_ORDERING;
  if (how == registration_method::dmabuf) {
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
  ensure_registered(entries_.front());
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
bool registry::ensure_registered(entry& which) {
  if (which.mr || which.is_unregistrable) return which.mr != nullptr;
  const registration_choice choice = find_registration_method(
      driver_, domain_, which.memory.kind, which.exported.descriptor >= 0, dmabuf_probe_);
  which.why = choice.why;
  which.is_unregistrable = choice.how == registration_method::none;
  if (which.is_unregistrable) return false;
  evict_idle(which.memory.bytes);
  owned_mr made = register_memory(which.memory, which.exported, choice.how, for_both);
  if (!made && errno == ENOMEM) {
    const bounds before = std::exchange(bounds_, bounds{0, 0});
    evict_idle(0);  // all that is idle
    bounds_ = before;
    made = register_memory(which.memory, which.exported, choice.how, for_both);
  }
  if (!made) {
    which.why = fmt::format("not {}: {}", choice.why, detail::errno_text(errno));
    return false;
  }
  which.mr = std::make_shared<owned_mr>(std::move(made));
  registered_bytes_ += which.memory.bytes;
  return true;
}

/// Evicts idle regions to fit one more of so many bytes. Those used by operations stay.
void registry::evict_idle(std::uint64_t bytes) {
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
    const bool is_over = one.mr || one.is_unregistrable;
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

bool registry::is_zero_copy(const const_view& what) {
  entry* const in = find(what);
  return in != nullptr && ensure_registered(*in);
}

std::shared_ptr<const rails::registered_memory> registry::registration_for(
    mutable_view what, bool by_peer, std::uint64_t min_bytes, std::shared_ptr<adapter> on) {
  const recycling_allocator<held_registration> with(blocks_);
  if (entry* const in = find(what)) {
    if (!ensure_registered(*in)) return nullptr;
    return std::allocate_shared<held_registration>(with, std::move(on), in->mr);
  }
  if (what.kind != memory_kind::host || what.bytes < min_bytes) return nullptr;
  owned_mr made = register_memory(what, {}, registration_method::plain, by_peer ? for_both : 0);
  if (!made) return nullptr;
  return std::allocate_shared<held_registration>(with, std::move(on), std::move(made));
}

}  // namespace tandem::verbs
