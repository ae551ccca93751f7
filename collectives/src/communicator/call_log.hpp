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
template <unsigned Capacity>
class call_log_of {
 public:
  static constexpr unsigned capacity = Capacity;

  /// @param history  the initial history of the group
  explicit call_log_of(std::uint32_t history = 0) noexcept : history_(history) {}
  /// The last calls of a longer log.
  template <unsigned Longer>
  explicit call_log_of(const call_log_of<Longer>& from) noexcept;

  /// Calls made so far, which is the sequence number of the next one.
  std::uint64_t count() const noexcept { return count_; }
  void add(std::uint64_t call) noexcept;
  /// @pre one of the last `capacity`.
  const call_signature& at(std::uint64_t sequence) const noexcept {
    return signatures_[sequence % capacity];
  }
  std::uint32_t history() const noexcept { return history_; }

  /// The first call that is in the log.
  std::uint64_t first() const noexcept { return count_ > capacity ? count_ - capacity : 0; }

  /// The first call that is in both logs and differs. None: they agree, though one may be behind.
  template <unsigned Other>
  std::optional<std::uint64_t> first_difference(const call_log_of<Other>& other) const noexcept;

 private:
  template <unsigned>
  friend class call_log_of;

  std::uint64_t count_ = 0;
  std::uint32_t history_;
  std::array<call_signature, capacity> signatures_{};
};
using call_log = call_log_of<64>;

template <unsigned Capacity>
void call_log_of<Capacity>::add(std::uint64_t call) noexcept {
  signatures_[count_ % capacity] = {call, history_};
  history_ = extend_history(history_, call);
  ++count_;
}

template <unsigned Capacity>
template <unsigned Longer>
call_log_of<Capacity>::call_log_of(const call_log_of<Longer>& from) noexcept
    : count_(from.count()), history_(from.history()) {
  static_assert(Longer >= Capacity);
  for (std::uint64_t sequence = first(); sequence < count_; ++sequence) {
    signatures_[sequence % capacity] = from.at(sequence);
  }
}

template <unsigned Capacity>
template <unsigned Other>
std::optional<std::uint64_t> call_log_of<Capacity>::first_difference(
    const call_log_of<Other>& other) const noexcept {
  const std::uint64_t last = std::min(count_, other.count());
  for (std::uint64_t sequence = std::max(first(), other.first()); sequence < last; ++sequence) {
    if (at(sequence) != other.at(sequence)) return sequence;
  }
  return std::nullopt;
}

static_assert(std::is_trivially_copyable_v<call_log>);

}  // namespace tandem::detail
