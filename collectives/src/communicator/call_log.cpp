#include "call_log.hpp"

#include <algorithm>

#include "call_record.hpp"

namespace tandem::detail {

void call_log::add(std::uint64_t call) noexcept {
  signatures_[count_ % capacity] = {call, history_};
  history_ = extend_history(history_, call);
  ++count_;
}

std::optional<std::uint64_t> call_log::first_difference(const call_log& other) const noexcept {
  const std::uint64_t last = std::min(count_, other.count_);
  for (std::uint64_t sequence = std::max(first(), other.first()); sequence < last; ++sequence) {
    if (at(sequence) != other.at(sequence)) return sequence;
  }
  return std::nullopt;
}

}  // namespace tandem::detail
