// The owner of file descriptors that have no Asio object.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tandem::detail {

class owned_descriptor {
 public:
  owned_descriptor() = default;
  explicit owned_descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  owned_descriptor(owned_descriptor&& other) noexcept : descriptor_(other.release()) {}
  owned_descriptor& operator=(owned_descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~owned_descriptor() { close(); }

  int get() const noexcept { return descriptor_; }
  bool is_open() const noexcept { return descriptor_ >= 0; }
  int release() noexcept { return std::exchange(descriptor_, -1); }
  /// 0 or errno: network file systems report write errors here.
  int close() noexcept {
    const int closing = release();
    return closing >= 0 && ::close(closing) != 0 && errno != EINTR ? errno : 0;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace tandem::detail
