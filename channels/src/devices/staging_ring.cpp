#include "devices/staging_ring.hpp"

#include <algorithm>

namespace tandem::devices {
namespace {

/// Copy engines are slower across cache lines. Also gives every slot a distinct offset.
constexpr std::size_t alignment_bytes = 256;

}  // namespace

std::optional<std::size_t> staging_ring::take(std::size_t bytes) {
  bytes = std::min((bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes,
                   std::max(bytes, capacity_bytes_));
  std::size_t first = 0;
  if (count_ > 0) {
    const region& oldest = at(0);
    const region& newest = at(count_ - 1);
    const bool is_wrapped = newest.first < oldest.first;
    first = newest.end;
    const std::size_t room = (is_wrapped ? oldest.first : capacity_bytes_) - first;
    if (room < bytes) {
      if (is_wrapped || oldest.first < bytes) return {};
      first = 0;
    }
  }
  add(first, bytes);
  return first;
}

void staging_ring::add(std::size_t first, std::size_t bytes) {
  if (count_ == regions_.size()) {
    std::rotate(regions_.begin(), regions_.begin() + static_cast<std::ptrdiff_t>(oldest_),
                regions_.end());
    oldest_ = 0;
    regions_.resize(std::max<std::size_t>(16, 2 * count_));
  }
  at(count_++) = {first, first + bytes, true};
}

void staging_ring::give_back(std::size_t first) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    if (at(i).first != first) continue;
    at(i).is_taken = false;
    break;
  }
  while (count_ > 0 && !at(0).is_taken) {
    oldest_ = (oldest_ + 1) % regions_.size();
    --count_;
  }
}

}  // namespace tandem::devices
