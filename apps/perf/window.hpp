#pragma once

#include <vector>

#include "perf/aligned_memory.hpp"
#include "perf/pattern.hpp"

namespace tandem::perf {

/// Number and length of messages.
struct window_shape {
  int depth = 1;
  std::size_t bytes = 0;
};

/// The messages of one sender that are in flight at the same time: `depth` messages of `bytes`,
/// each in separate memory. The sender fills and marks its window, the receiver checks its own
/// against the same message ids.
class window {
 public:
  /// @param sender  the rank whose pattern the messages carry
  window(int sender, window_shape of, memory_source from = nullptr)
      : sender_(sender), memory_(stride(of.bytes) * static_cast<std::size_t>(of.depth), from) {
    for (int slot = 0; slot < of.depth; ++slot) {
      messages_.push_back(memory_.bytes().subspan(stride(of.bytes) * slot, of.bytes));
    }
  }
  window(const window&) = delete;
  window& operator=(const window&) = delete;

  const std::vector<std::span<std::byte>>& messages() const noexcept { return messages_; }
  /// Total of all messages.
  std::size_t bytes() const noexcept { return messages_.size() * messages_.front().size(); }

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

  static std::size_t stride(std::size_t bytes) noexcept {
    constexpr std::size_t line = aligned_memory::line_bytes;
    return (bytes + line - 1) / line * line;
  }

  int sender_;
  aligned_memory memory_;
  std::vector<std::span<std::byte>> messages_;
};

}  // namespace tandem::perf
