#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <tandem/memory.hpp>
#include <utility>
#include <vector>

namespace tandem::detail {

/// A byte range of a view.
struct extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// The offset and length of each rank's block in a view that holds all of them, in rank order.
class blocks {
 public:
  /// As even as whole elements allow: block s of E elements is [E s / n, E (s + 1) / n).
  blocks(std::size_t elements, std::size_t element_bytes, int ranks) noexcept
      : elements_(elements), element_bytes_(element_bytes), ranks_(ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    is_even_ = elements % n == 0;
    if (is_even_) each_bytes_ = elements / n * element_bytes;
  }
  /// Blocks of equal length.
  blocks(std::size_t bytes_each, int ranks) noexcept
      : elements_(static_cast<std::size_t>(ranks)),
        element_bytes_(bytes_each),
        ranks_(ranks),
        is_even_(true),
        each_bytes_(bytes_each) {}
  explicit blocks(std::span<const std::size_t> bytes_of_rank);
  /// Blocks at any offsets, in any order; `offset(ranks())` and `total()` are then meaningless.
  explicit blocks(std::vector<extent> extents) noexcept
      : ranks_(static_cast<int>(extents.size())), extents_(std::move(extents)) {}

  int ranks() const noexcept { return ranks_; }
  std::size_t offset(int of) const noexcept {
    const auto s = static_cast<std::size_t>(of);
    if (is_even_) return each_bytes_ * s;
    if (extents_.empty()) {
      return elements_ * s / static_cast<std::size_t>(ranks_) * element_bytes_;
    }
    return of < ranks_ ? extents_[s].offset : extents_.back().offset + extents_.back().bytes;
  }
  std::size_t bytes(int of) const noexcept {
    if (is_even_) return each_bytes_;
    if (!extents_.empty()) return extents_[static_cast<std::size_t>(of)].bytes;
    return offset(of + 1) - offset(of);
  }
  std::size_t total() const noexcept { return offset(ranks_); }
  std::size_t longest() const noexcept;

  extent at(int of) const noexcept { return {offset(of), bytes(of)}; }
  /// Slice number `slice` out of `slices` of the block of each of these ranks, in whole elements.
  blocks slice_of(std::span<const int> ranks, std::size_t element_bytes, int slice,
                  int slices) const;
  mutable_view in(mutable_view all, int of) const noexcept {
    return all.part(offset(of), bytes(of));
  }
  const_view in(const_view all, int of) const noexcept { return all.part(offset(of), bytes(of)); }

 private:
  std::size_t elements_ = 0;
  std::size_t element_bytes_ = 0;
  int ranks_;
  bool is_even_ = false;  // all blocks have each_bytes_, which saves a division per lookup
  std::size_t each_bytes_ = 0;
  std::vector<extent> extents_;  // explicit extents; empty: computed
};

inline mutable_view at(mutable_view of, extent where) noexcept {
  return of.part(where.offset, where.bytes);
}
inline const_view at(const_view of, extent where) noexcept {
  return of.part(where.offset, where.bytes);
}

/// `rank + by` modulo `ranks`; `by` may be negative. @pre -ranks <= by
constexpr int around(int rank, int by, int ranks) noexcept {
  return (rank + by + ranks) % ranks;
}

}  // namespace tandem::detail
