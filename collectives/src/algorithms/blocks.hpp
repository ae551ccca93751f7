#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::detail {

/// A stretch of a view.
struct extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Where each rank's block lies in a view that holds all of them, in the order of ranks.
class blocks {
 public:
  /// As even as whole elements allow: of E elements, block s is [E s / n, E (s + 1) / n).
  blocks(std::size_t elements, std::size_t element_bytes, int ranks) noexcept
      : elements_(elements), element_bytes_(element_bytes), ranks_(ranks) {}
  /// Of equal length.
  blocks(std::size_t bytes_each, int ranks) noexcept
      : blocks(static_cast<std::size_t>(ranks), bytes_each, ranks) {}
  explicit blocks(std::span<const std::size_t> bytes_of_rank);

  int ranks() const noexcept { return ranks_; }
  std::size_t offset(int of) const noexcept {
    const auto s = static_cast<std::size_t>(of);
    if (!offsets_.empty()) return offsets_[s];
    return elements_ * s / static_cast<std::size_t>(ranks_) * element_bytes_;
  }
  std::size_t bytes(int of) const noexcept { return offset(of + 1) - offset(of); }
  std::size_t total() const noexcept { return offset(ranks_); }
  std::size_t longest() const noexcept;

  extent at(int of) const noexcept { return {offset(of), bytes(of)}; }
  mutable_view in(mutable_view all, int of) const noexcept {
    return all.part(offset(of), bytes(of));
  }
  const_view in(const_view all, int of) const noexcept { return all.part(offset(of), bytes(of)); }

 private:
  std::size_t elements_ = 0;
  std::size_t element_bytes_ = 0;
  int ranks_;
  std::vector<std::size_t> offsets_;  // of listed lengths, one more than ranks
};

inline mutable_view at(mutable_view of, extent where) noexcept {
  return of.part(where.offset, where.bytes);
}
inline const_view at(const_view of, extent where) noexcept {
  return of.part(where.offset, where.bytes);
}

/// Copies a block to its own place; in place it is there.
inline void put_own(const_view block, mutable_view place) noexcept {
  if (block.bytes > 0 && block.data != place.data) {
    std::memmove(place.data, block.data, block.bytes);
  }
}

/// `rank + by` in a circle of `ranks`; `by` may be negative. @pre -ranks <= by
constexpr int around(int rank, int by, int ranks) noexcept {
  return (rank + by + ranks) % ranks;
}

}  // namespace tandem::detail
