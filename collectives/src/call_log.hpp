#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tandem/operation.hpp>

namespace tandem::detail {

/// The last collectives that a rank has called on one group, without I/O: by their place in the
/// order of calls, which is what matches them.
class call_log {
 public:
  static constexpr unsigned kept = 64;
  /// Calls made, then for each of the last ones call and history; little endian.
  static constexpr std::size_t wire_bytes = 8 + kept * 12;
  using wire = std::array<std::byte, wire_bytes>;

  /// @param history  of a group that has called nothing
  explicit call_log(std::uint32_t history) noexcept : history_(history) {}

  /// Calls made so far; the next one's place.
  std::uint64_t count() const noexcept { return count_; }
  void add(std::uint64_t call) noexcept;
  /// @pre one of the last `kept`.
  const message_note& at(std::uint64_t place) const noexcept { return notes_[place % kept]; }
  std::uint32_t history() const noexcept { return history_; }

  void write(wire& to) const noexcept;
  /// Nothing, where the bytes are of another length.
  static std::optional<call_log> read(std::span<const std::byte> from) noexcept;

  /// The first call known to both that differs. None: one may be late, but they agree.
  std::optional<std::uint64_t> first_difference(const call_log& other) const noexcept;

 private:
  std::uint64_t first() const noexcept { return count_ > kept ? count_ - kept : 0; }

  std::array<message_note, kept> notes_{};
  std::uint64_t count_ = 0;
  std::uint32_t history_;
};

}  // namespace tandem::detail
