#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace tandem::rails {

/// Memory for copies of payloads, in two sizes: freed copies are kept for later ones.
class copy_pool {
 public:
  using memory = std::unique_ptr<std::byte[]>;
  static constexpr std::size_t short_bytes = 256;

  /// @param long_bytes  the longest copy whose memory is kept
  explicit copy_pool(std::size_t long_bytes)
      : long_bytes_(std::max(long_bytes, short_bytes)), max_long_(max_kept_bytes / long_bytes_) {}

  memory take(std::size_t bytes) {
    if (bytes > long_bytes_) return std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::vector<memory>& kept = bytes <= short_bytes ? short_ : long_;
    if (kept.empty()) {
      const std::size_t length = bytes <= short_bytes ? short_bytes : long_bytes_;
      return std::make_unique_for_overwrite<std::byte[]>(length);
    }
    memory taken = std::move(kept.back());
    kept.pop_back();
    return taken;
  }
  /// @param bytes  as it was taken for
  void give_back(memory used, std::size_t bytes) {
    if (!used || bytes > long_bytes_) return;
    std::vector<memory>& kept = bytes <= short_bytes ? short_ : long_;
    if (kept.size() < (bytes <= short_bytes ? max_short : max_long_)) {
      kept.push_back(std::move(used));
    }
  }

 private:
  static constexpr std::size_t max_kept_bytes = std::size_t{4} << 20;
  static constexpr std::size_t max_short = 1024;

  std::size_t long_bytes_;
  std::size_t max_long_;
  std::vector<memory> short_, long_;
};

}  // namespace tandem::rails
