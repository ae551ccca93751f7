#include "devices/mapping.hpp"

#include <map>
#include <mutex>
#include <tandem/detail/deferred_calls.hpp>
#include <thread>
#include <utility>

namespace tandem::devices {
namespace {

using detail::deferred_calls;
using key = std::pair<accelerator*, accelerator::handle>;

std::mutex mutex;
std::map<key, std::weak_ptr<const mapping>> mapped;  // of all channels of the process

/// @param is_at_once  then the allocation must not be opened again before it is closed, which old
/// drivers refuse; one that is closed later must not hold up those that are opened
void close(const key& which, const mapping* last, bool is_at_once) {
  std::unique_lock lock(mutex, std::defer_lock);
  if (is_at_once) lock.lock();
  delete last;
  if (!is_at_once) lock.lock();
  const auto entry = mapped.find(which);
  if (entry != mapped.end() && entry->second.expired()) mapped.erase(entry);
}

}  // namespace

std::shared_ptr<const mapping> map_shared(accelerator& on, const accelerator::handle& shared) {
  const std::lock_guard lock(mutex);
  const key which{&on, shared};
  std::weak_ptr<const mapping>& known = mapped[which];
  if (std::shared_ptr<const mapping> there = known.lock()) return there;
  try {
    const std::shared_ptr<const mapping> made(
        new mapping(on, shared), [which](const mapping* last) {
          deferred_calls::of_process().make([which, last, by = std::this_thread::get_id()] {
            close(which, last, by == std::this_thread::get_id());
          });
        });
    known = made;
    return made;
  } catch (...) {
    mapped.erase(which);
    throw;
  }
}

std::shared_ptr<const mapping> map_pages(accelerator& on, std::span<const accelerator::pages> all) {
  return {new mapping(on, all),
          [](const mapping* last) { deferred_calls::of_process().make([last] { delete last; }); }};
}

}  // namespace tandem::devices
