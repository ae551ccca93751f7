#pragma once

#include <memory>
#include <vector>

#include "perf/pattern.hpp"

namespace tandem::perf {

/// How many messages, how long each.
struct window_shape {
  int depth = 1;
  std::size_t bytes = 0;
};

/// The messages of one sender that are in flight at once: `depth` of them, `bytes` long, each in
/// memory of its own. The sender fills and marks its window, the receiver checks its own against
/// the same names.
class window {
 public:
  /// @param sender  the rank whose pattern the messages carry
  window(int sender, int depth, std::size_t bytes)
      : sender_(sender), stride_((bytes + 63) / 64 * 64), memory_(stride_ * depth + 64) {
    void* first = memory_.data();
    std::size_t space = memory_.size();
    std::align(64, stride_ * depth, first, space);
    for (int slot = 0; slot < depth; ++slot) {
      messages_.emplace_back(static_cast<std::byte*>(first) + stride_ * slot, bytes);
    }
  }
  window(const window&) = delete;
  window& operator=(const window&) = delete;

  const std::vector<std::span<std::byte>>& messages() const noexcept { return messages_; }

  void clear() {
    for (const std::span<std::byte> message : messages_) perf::clear(message);
  }
  void fill(std::uint64_t epoch, std::uint64_t iteration) {
    for (int slot = 0; slot < depth(); ++slot) {
      perf::fill(messages_[slot], {sender_, slot, epoch}, iteration);
    }
  }
  void mark(std::uint64_t epoch, std::uint64_t iteration) {
    for (int slot = 0; slot < depth(); ++slot) {
      perf::mark(messages_[slot], {sender_, slot, epoch}, iteration);
    }
  }
  std::uint64_t wrong_marks(std::uint64_t epoch, std::uint64_t iteration) const {
    std::uint64_t wrong = 0;
    for (int slot = 0; slot < depth(); ++slot) {
      wrong += perf::wrong_marks(messages_[slot], {sender_, slot, epoch}, iteration);
    }
    return wrong;
  }
  std::uint64_t wrong_bytes(std::uint64_t epoch, std::uint64_t iteration) const {
    std::uint64_t wrong = 0;
    for (int slot = 0; slot < depth(); ++slot) {
      wrong += perf::wrong_bytes(messages_[slot], {sender_, slot, epoch}, iteration);
    }
    return wrong;
  }

 private:
  int depth() const noexcept { return static_cast<int>(messages_.size()); }

  int sender_;
  std::size_t stride_;
  std::vector<std::byte> memory_;
  std::vector<std::span<std::byte>> messages_;
};

}  // namespace tandem::perf
