#include "blocks.hpp"

namespace tandem::detail {

blocks::blocks(std::span<const std::size_t> bytes_of_rank)
    : ranks_(static_cast<int>(bytes_of_rank.size())) {
  std::size_t offset = 0;
  for (const std::size_t bytes : bytes_of_rank) {
    extents_.push_back({offset, bytes});
    offset += bytes;
  }
}

std::size_t blocks::longest() const noexcept {
  if (extents_.empty()) {
    const auto n = static_cast<std::size_t>(ranks_);
    return (elements_ + n - 1) / n * element_bytes_;
  }
  std::size_t most = 0;
  for (const extent& block : extents_) most = std::max(most, block.bytes);
  return most;
}

blocks blocks::slice_of(std::span<const int> ranks, std::size_t element_bytes, int slice,
                        int slices) const {
  std::vector<extent> extents;
  for (const int rank : ranks) {
    const extent block = at(rank);
    const blocks cut(block.bytes / element_bytes, element_bytes, slices);
    extents.push_back({block.offset + cut.offset(slice), cut.bytes(slice)});
  }
  return blocks(std::move(extents));
}

}  // namespace tandem::detail
