#include "devices/mapping.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace tandem::devices {
namespace {

using key = std::pair<accelerator*, accelerator::handle>;

std::mutex mutex;
std::map<key, std::weak_ptr<const mapping>> mapped;  // of all channels of the process

}  // namespace

/// Closing holds the lock, too: the allocation must not be opened again before it is closed.
std::shared_ptr<const mapping> map_shared(accelerator& on, const accelerator::handle& shared) {
  const std::lock_guard lock(mutex);
  const key which{&on, shared};
  std::weak_ptr<const mapping>& known = mapped[which];
  if (std::shared_ptr<const mapping> there = known.lock()) return there;
  try {
    const std::shared_ptr<const mapping> made(
        new mapping(on, shared), [which](const mapping* last) {
          const std::lock_guard closing(mutex);
          delete last;
          const auto entry = mapped.find(which);
          if (entry != mapped.end() && entry->second.expired()) mapped.erase(entry);
        });
    known = made;
    return made;
  } catch (...) {
    mapped.erase(which);
    throw;
  }
}

}  // namespace tandem::devices
