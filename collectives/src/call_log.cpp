#include "call_log.hpp"

#include <algorithm>

#include "call_record.hpp"

namespace tandem::detail {

void call_log::add(std::uint64_t call) noexcept {
  notes_[count_ % kept] = {call, history_};
  history_ = follow(history_, call);
  ++count_;
}

std::optional<std::uint64_t> call_log::first_difference(const call_log& other) const noexcept {
  const std::uint64_t last = std::min(count_, other.count_);
  for (std::uint64_t place = std::max(first(), other.first()); place < last; ++place) {
    if (at(place) != other.at(place)) return place;
  }
  return std::nullopt;
}

}  // namespace tandem::detail
