#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tandem/channel.hpp>
#include <type_traits>

#include "call_record.hpp"

namespace tandem::detail {

/// The last collectives that a rank has called on one group, by their sequence number, which is
/// what matches calls of different ranks. Without I/O. Sent as plain bytes, because all ranks of a
/// job run the same build; comparing with a log of arbitrary contents is safe.
class call_log {
 public:
  static constexpr unsigned capacity = 64;

  /// @param history  the initial history of the group
  explicit call_log(std::uint32_t history = 0) noexcept : history_(history) {}

  /// Calls made so far, which is the sequence number of the next one.
  std::uint64_t count() const noexcept { return count_; }
  void add(std::uint64_t call) noexcept;
  /// @pre one of the last `capacity`.
  const call_signature& at(std::uint64_t sequence) const noexcept {
    return signatures_[sequence % capacity];
  }
  std::uint32_t history() const noexcept { return history_; }

  /// The first call that is in both logs and differs. None: they agree, though one may be behind.
  std::optional<std::uint64_t> first_difference(const call_log& other) const noexcept;

 private:
  std::uint64_t first() const noexcept { return count_ > capacity ? count_ - capacity : 0; }

  std::array<call_signature, capacity> signatures_{};
  std::uint64_t count_ = 0;
  std::uint32_t history_;
};
inline void call_log::add(std::uint64_t call) noexcept {
  signatures_[count_ % capacity] = {call, history_};
  history_ = extend_history(history_, call);
  ++count_;
}

inline std::optional<std::uint64_t> call_log::first_difference(
    const call_log& other) const noexcept {
  const std::uint64_t last = std::min(count_, other.count_);
  for (std::uint64_t sequence = std::max(first(), other.first()); sequence < last; ++sequence) {
    if (at(sequence) != other.at(sequence)) return sequence;
  }
  return std::nullopt;
}

static_assert(std::is_trivially_copyable_v<call_log>);

}  // namespace tandem::detail
