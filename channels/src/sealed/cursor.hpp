#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace tandem::sealed {

/// A place in memory that lies in parts, as a system call takes them.
class cursor {
 public:
  explicit cursor(std::span<const iovec> parts) noexcept : parts_(parts) {
    for (const iovec& part : parts) left_ += part.iov_len;
    skip_empty();
  }

  std::size_t done_bytes() const noexcept { return done_; }
  std::size_t left_bytes() const noexcept { return left_; }
  /// Of the part at hand; 0: at the end.
  std::size_t here_bytes() const noexcept {
    return index_ < parts_.size() ? parts_[index_].iov_len - at_ : 0;
  }
  /// Goes on by so many bytes, or as many as the part at hand has, and says which they were.
  std::span<std::byte> step(std::size_t bytes) noexcept {
    bytes = std::min(bytes, here_bytes());
    if (bytes == 0) return {};
    auto* const first = static_cast<std::byte*>(parts_[index_].iov_base) + at_;
    at_ += bytes;
    done_ += bytes;
    left_ -= bytes;
    skip_empty();
    return {first, bytes};
  }

 private:
  void skip_empty() noexcept {
    for (; index_ < parts_.size() && at_ == parts_[index_].iov_len; ++index_) at_ = 0;
  }

  std::span<const iovec> parts_;
  std::size_t index_ = 0;
  std::size_t at_ = 0;  // in the part at hand
  std::size_t done_ = 0;
  std::size_t left_ = 0;
};

}  // namespace tandem::sealed
