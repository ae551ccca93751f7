#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/sharing.hpp"

namespace tandem::devices {

/// Flag of a frame: a reference follows it, which says where to read its payload. In a message of
/// chunks that may be several of them.
constexpr std::uint16_t by_reference = 4;

/// Follows such a frame, 16 bytes, little endian:
///
///    0 serial u32   4 allocation u32   8 offset u64
struct reference {
  std::uint32_t serial = 0;  ///< the sender's id, until it is acknowledged
  shared_location at;
};
constexpr std::size_t reference_bytes = 16;

void encode(const reference& from, std::byte* to) noexcept;
reference decode_reference(const std::byte* from) noexcept;

/// A message about device memory, on the flow of frames, 128 bytes, little endian:
///
///    0 magic u32 "TNDR"  4 type u8  5 kind of memory u8  6 count u16  8 allocation u32
///   12 count u32s: serials; or
///   16 base u64  24 bytes u64  32 device's uuid  48 handle (`count` is that of its pages); or
///   12 text of `count` bytes; or
///   12 `count` pages: descriptor u32, bytes / 4096 u32
///  124 CRC32C of bytes 0..123
struct control_message {
  enum class type : std::uint8_t {
    described = 1,  ///< an allocation, or staging (kind host)
    retired = 2,    ///< `id` is gone; references to it were sent before
    opened = 3,     ///< answer: this end can read `id`
    refused = 4,    ///< answer: this end cannot read `id`, and why
    pulled = 5,     ///< acknowledges references that were read or are not needed
    pages = 6,      ///< the next pages of the allocation that was described last
  };
  type what = type::pulled;
  std::uint32_t id = 0;
  shared_allocation allocation = {};
  std::string why = {};  ///< truncated to the message
  std::array<std::uint32_t, 28> serials{};
  std::uint16_t count = 0;  ///< of serials
  static constexpr std::size_t max_pages = 14;
};
constexpr std::size_t control_message_bytes = 128;

bool is_control_message(std::span<const std::byte> message) noexcept;
void encode(const control_message& from, std::span<std::byte, control_message_bytes> to);
/// Empty if the bytes are not valid; `why` then says what is wrong.
std::optional<control_message> decode_control_message(std::span<const std::byte> from,
                                                      std::string& why);

}  // namespace tandem::devices
