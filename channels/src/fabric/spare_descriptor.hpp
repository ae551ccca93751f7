#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace tandem::transport {

/// A descriptor in reserve, so that a peer can be accepted and refused with a reason when no other
/// descriptor is left.
class spare_descriptor {
 public:
  spare_descriptor() noexcept { reserve(); }
  ~spare_descriptor() { release(); }
  spare_descriptor(const spare_descriptor&) = delete;
  spare_descriptor& operator=(const spare_descriptor&) = delete;

  void reserve() noexcept {
    if (fd_ < 0) fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
  /// False: there is none.
  bool release() noexcept {
    if (fd_ < 0) return false;
    ::close(fd_);
    fd_ = -1;
    return true;
  }

 private:
  int fd_ = -1;
};

}  // namespace tandem::transport
