#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::detail {

/// What one rank asks of another's memory: the first message of a put, a get or a flush.
/// Little-endian on the wire, without padding:
///
///   offset  type  field
///   0       u64   kind: 1 put, 2 put with a notification, 3 get, 4 flush, 5 leave, 6 notification
///                 of a put whose bytes are there already
///   8       u64   number of the request between the two ranks, from 0
///   16      u64   offset in the memory
///   24      u64   bytes
///   32      u64   value of the notification
struct window_request {
  enum class kind : std::uint64_t {
    put = 1,
    put_and_notify = 2,
    get = 3,
    flush = 4,
    leave = 5,
    notify = 6
  };
  static constexpr std::size_t wire_bytes = 40;
  using wire = std::array<std::byte, wire_bytes>;

  kind what = kind::put;
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;

  bool is_put() const noexcept { return what == kind::put || what == kind::put_and_notify; }
  /// A message of the owner's that answers it, empty for a flush and a leave.
  bool has_answer() const noexcept { return !is_put() && what != kind::notify; }
  wire encode() const noexcept;
  /// Empty: no such kind.
  static std::optional<window_request> decode(const wire& from) noexcept;
  /// Whether it lies within memory of that length.
  bool fits(std::uint64_t memory_bytes) const noexcept {
    return offset <= memory_bytes && bytes <= memory_bytes - offset;
  }
};

}  // namespace tandem::detail
