#include "sealed/outgoing.hpp"

namespace tandem::sealed {
namespace {

/// Parts shorter than this share a record, which frame readers open into their staging buffer.
constexpr std::size_t long_part_bytes = 8 * 1024;

}  // namespace

std::size_t outgoing::next_text(cursor from) noexcept {
  if (from.contiguous_bytes() >= long_part_bytes)
    return std::min(from.contiguous_bytes(), max_text_bytes);
  const std::size_t before = from.done_bytes();
  std::size_t left = max_text_bytes;
  while (left > 0 && from.contiguous_bytes() > 0 && from.contiguous_bytes() < long_part_bytes) {
    left -= from.step(left).size();
  }
  return from.done_bytes() - before;
}

void outgoing::take(cursor& from) {
  size_ = sent_ = 0;
  while (from.left_bytes() > 0) {
    const std::size_t bytes = next_text(from);
    if (bytes + overhead_bytes > wire_buffer_bytes - size_) break;
    sealer_.seal(from, bytes, wire_.get() + size_);
    size_ += bytes + overhead_bytes;
  }
}

}  // namespace tandem::sealed
