#include "call_log.hpp"

#include <algorithm>

#include "call_record.hpp"

namespace tandem::detail {
namespace {

template <class Integer>
std::byte* put(std::byte* to, Integer value) noexcept {
  for (std::size_t i = 0; i < sizeof value; ++i) *to++ = static_cast<std::byte>(value >> 8 * i);
  return to;
}

template <class Integer>
const std::byte* take(const std::byte* from, Integer& value) noexcept {
  value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<Integer>(*from++) << 8 * i;
  return from;
}

}  // namespace

void call_log::add(std::uint64_t call) noexcept {
  notes_[count_ % kept] = {call, history_};
  history_ = follow(history_, call);
  ++count_;
}

void call_log::write(wire& to) const noexcept {
  std::byte* p = put(to.data(), count_);
  for (const message_note& one : notes_) p = put(put(p, one.call), one.history);
}

std::optional<call_log> call_log::read(std::span<const std::byte> from) noexcept {
  if (from.size() != wire_bytes) return std::nullopt;
  call_log log(0);
  const std::byte* p = take(from.data(), log.count_);
  for (message_note& one : log.notes_) p = take(take(p, one.call), one.history);
  return log;
}

std::optional<std::uint64_t> call_log::first_difference(const call_log& other) const noexcept {
  const std::uint64_t last = std::min(count_, other.count_);
  for (std::uint64_t place = std::max(first(), other.first()); place < last; ++place) {
    if (at(place) != other.at(place)) return place;
  }
  return std::nullopt;
}

}  // namespace tandem::detail
