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

/// Flag of a frame: its payload is where the reference says that comes behind it. Of a message in
/// chunks it may be several of them.
constexpr std::uint16_t by_reference = 4;

/// What follows such a frame, 16 bytes, little endian:
///
///    0 serial u32   4 allocation u32   8 offset u64
struct reference {
  std::uint32_t serial = 0;  ///< the sender's name for it, until it is acknowledged
  shared_place at;
};
constexpr std::size_t reference_bytes = 16;

void encode(const reference& from, std::byte* to) noexcept;
reference decode_reference(const std::byte* from) noexcept;

/// What two ends say of device memory, between their frames, 128 bytes, little endian:
///
///    0 magic u32 "TNDR"  4 type u8  5 kind of memory u8  6 count u16  8 allocation u32
///   12 count u32s: serials; or
///   16 base u64  24 bytes u64  32 device's uuid  48 handle; or
///   12 text of `count` bytes
///  124 CRC32C of bytes 0..123
struct note {
  enum class type : std::uint8_t {
    described = 1,  ///< an allocation, or staging: then of kind host
    retired = 2,    ///< `id` is no more; references to it came before
    opened = 3,     ///< `id` can be read here
    refused = 4,    ///< `id` cannot, and why
    pulled = 5,     ///< all of these references have been read, or are not wanted
  };
  type what = type::pulled;
  std::uint32_t id = 0;
  shared_allocation allocation = {};
  std::string why = {};  ///< cut where it is long
  std::array<std::uint32_t, 28> serials{};
  std::uint16_t count = 0;  ///< of serials
};
constexpr std::size_t note_bytes = 128;

bool is_note(std::span<const std::byte> message) noexcept;
void encode(const note& from, std::span<std::byte, note_bytes> to);
/// Empty if these bytes are none of this version; `why` then says what is wrong.
std::optional<note> decode_note(std::span<const std::byte> from, std::string& why);

}  // namespace tandem::devices
