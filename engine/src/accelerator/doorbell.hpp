#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <tandem/detail/resources.hpp>
#include <unordered_map>

namespace tandem {

/// An eventfd that a thread of the driver writes to. The driver is given an id instead of a
/// pointer: a doorbell that was destroyed meanwhile is not found, so nothing must be kept alive
/// for a callback that may never run.
class doorbell {
 public:
  doorbell() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw detail::system_failure(errno, detail::resource::descriptor,
                                   "cannot create an eventfd for device completions");
    }
    const std::lock_guard lock(instance().mutex);
    id_ = ++instance().last_id;
    instance().descriptors.emplace(id_, descriptor_);
  }
  ~doorbell() {
    const std::lock_guard lock(instance().mutex);
    instance().descriptors.erase(id_);
    ::close(descriptor_);
  }
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;

  int descriptor() const noexcept { return descriptor_; }
  void ring() const noexcept { ring(descriptor_); }
  /// The argument of `ring_by_id`.
  void* id() const noexcept { return reinterpret_cast<void*>(id_); }
  /// Called on a thread of the driver.
  static void ring_by_id(void* id) {
    const std::lock_guard lock(instance().mutex);
    const auto found = instance().descriptors.find(reinterpret_cast<std::uintptr_t>(id));
    if (found != instance().descriptors.end()) ring(found->second);
  }

 private:
  struct registry {
    std::mutex mutex;
    std::uintptr_t last_id = 0;
    std::unordered_map<std::uintptr_t, int> descriptors;
  };
  /// Never destroyed: a thread of the driver may outlive static objects.
  static registry& instance() {
    static registry& only = *new registry;
    return only;
  }
  static void ring(int descriptor) noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(descriptor, &one, sizeof(one));
  }

  const int descriptor_;
  std::uintptr_t id_ = 0;
};

}  // namespace tandem
