#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace tandem::sealed {

/// A position in scattered memory, an array of iovec.
class cursor {
 public:
  explicit cursor(std::span<const iovec> parts) noexcept : parts_(parts) {
    for (const iovec& part : parts) left_ += part.iov_len;
    skip_empty();
  }

  std::size_t done_bytes() const noexcept { return done_; }
  std::size_t left_bytes() const noexcept { return left_; }
  /// Bytes left in the current part; 0: at the end.
  std::size_t contiguous_bytes() const noexcept {
    return index_ < parts_.size() ? parts_[index_].iov_len - at_ : 0;
  }
  /// Advances by `bytes`, or to the end of the current part, and returns the bytes passed.
  std::span<std::byte> step(std::size_t bytes) noexcept {
    bytes = std::min(bytes, contiguous_bytes());
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
  std::size_t at_ = 0;  // in the current part
  std::size_t done_ = 0;
  std::size_t left_ = 0;
};

}  // namespace tandem::sealed
