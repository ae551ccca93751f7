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
class bell {
 public:
  bell() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw detail::system_failure(errno, detail::resource::descriptor,
                                   "cannot create an eventfd for device completions");
    }
    const std::lock_guard lock(all().mutex);
    number_ = ++all().last;
    all().descriptors.emplace(number_, descriptor_);
  }
  ~bell() {
    const std::lock_guard lock(all().mutex);
    all().descriptors.erase(number_);
    ::close(descriptor_);
  }
  bell(const bell&) = delete;
  bell& operator=(const bell&) = delete;

  int descriptor() const noexcept { return descriptor_; }
  void ring() const noexcept { ring(descriptor_); }
  /// The argument of `ring_by_id`.
  void* number() const noexcept { return reinterpret_cast<void*>(number_); }
  /// Called on a thread of the driver.
  static void ring_by_number(void* number) {
    const std::lock_guard lock(all().mutex);
    const auto found = all().descriptors.find(reinterpret_cast<std::uintptr_t>(number));
    if (found != all().descriptors.end()) ring(found->second);
  }

 private:
  struct registry {
    std::mutex mutex;
    std::uintptr_t last = 0;
    std::unordered_map<std::uintptr_t, int> descriptors;
  };
  /// Never destroyed: a thread of the driver may outlive static objects.
  static registry& all() {
    static registry& here = *new registry;
    return here;
  }
  static void ring(int descriptor) noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(descriptor, &one, sizeof(one));
  }

  const int descriptor_;
  std::uintptr_t number_ = 0;
};

}  // namespace tandem
