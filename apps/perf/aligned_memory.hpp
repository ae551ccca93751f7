#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tandem::perf {

/// Allocates zeroed, cache-line-aligned bytes, owned by the returned pointer.
using memory_source = std::shared_ptr<std::byte> (*)(std::size_t bytes);

/// Zeroed, cache-line-aligned bytes.
class aligned_memory {
 public:
  /// @param from  null: the heap
  explicit aligned_memory(std::size_t bytes, memory_source from = nullptr) {
    if (from != nullptr) {
      external_ = from(bytes);
      bytes_ = {external_.get(), bytes};
      return;
    }
    memory_.resize(bytes + line_bytes);
    void* first = memory_.data();
    std::size_t space = memory_.size();
    std::align(line_bytes, bytes, first, space);
    bytes_ = {static_cast<std::byte*>(first), bytes};
  }
  aligned_memory(const aligned_memory&) = delete;
  aligned_memory& operator=(const aligned_memory&) = delete;
  std::span<std::byte> bytes() const noexcept { return bytes_; }

  static constexpr std::size_t line_bytes = 64;

 private:
  std::vector<std::byte> memory_;
  std::shared_ptr<std::byte> external_;
  std::span<std::byte> bytes_;
};

}  // namespace tandem::perf
