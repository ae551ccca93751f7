#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::protocol {

/// Memory for copies of payloads: freed copies are kept for later ones, by the power of two that
/// they need at most.
class copy_pool {
 public:
  using memory = std::unique_ptr<std::byte[]>;

  memory take(std::size_t bytes) {
    if (bytes > max_kept_bytes) return std::make_unique_for_overwrite<std::byte[]>(bytes);
    const std::size_t which = size_class_of(bytes);
    std::vector<memory>& kept = kept_[which];
    if (kept.empty()) return std::make_unique_for_overwrite<std::byte[]>(bytes_of(which));
    memory taken = std::move(kept.back());
    kept.pop_back();
    kept_bytes_ -= bytes_of(which);
    return taken;
  }
  /// @param bytes  as it was taken for
  void give_back(memory used, std::size_t bytes) {
    if (!used || bytes > max_kept_bytes) return;
    const std::size_t which = size_class_of(bytes);
    if (kept_bytes_ + bytes_of(which) > max_kept_bytes) return;
    kept_[which].push_back(std::move(used));
    kept_bytes_ += bytes_of(which);
  }

 private:
  static constexpr std::size_t max_kept_bytes = std::size_t{4} << 20;
  static constexpr std::size_t min_bytes = 64;
  static constexpr std::size_t classes = std::bit_width(max_kept_bytes / min_bytes);

  static constexpr std::size_t size_class_of(std::size_t bytes) noexcept {
    return bytes <= min_bytes ? 0
                              : static_cast<std::size_t>(std::bit_width((bytes - 1) / min_bytes));
  }
  static constexpr std::size_t bytes_of(std::size_t which) noexcept { return min_bytes << which; }

  std::size_t kept_bytes_ = 0;
  std::array<std::vector<memory>, classes> kept_;
};

}  // namespace tandem::protocol
