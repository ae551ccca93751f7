#include "blocks.hpp"

namespace tandem::detail {

blocks::blocks(std::span<const std::size_t> bytes_of_rank)
    : ranks_(static_cast<int>(bytes_of_rank.size())), offsets_(bytes_of_rank.size() + 1) {
  for (std::size_t i = 0; i < bytes_of_rank.size(); ++i) {
    offsets_[i + 1] = offsets_[i] + bytes_of_rank[i];
  }
}

std::size_t blocks::longest() const noexcept {
  if (offsets_.empty()) {
    const auto n = static_cast<std::size_t>(ranks_);
    return (elements_ + n - 1) / n * element_bytes_;
  }
  std::size_t most = 0;
  for (int i = 0; i < ranks_; ++i) most = std::max(most, bytes(i));
  return most;
}

}  // namespace tandem::detail
