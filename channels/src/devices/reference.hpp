#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/sharing.hpp"
#include "protocol/frame.hpp"

namespace tandem::devices {

/// Flag of a frame: its payload, and that of the chunks that follow it, is where the reference says
/// that comes behind it.
constexpr std::uint16_t by_reference = 4;

/// What follows such a frame, 32 bytes, little endian:
///
///    0 serial u32   4 chunks u32   8 allocation u32   12 reserved
///   16 offset u64  24 bytes u64
///
/// The frame is that of the first chunk; each of the others is as long, but for the last.
struct reference {
  std::uint32_t serial = 0;  ///< the sender's name for it, until it is acknowledged
  std::uint32_t chunks = 1;
  shared_place at;
  std::uint64_t bytes = 0;
};
constexpr std::size_t reference_bytes = 32;
/// Of one reference.
constexpr std::uint32_t most_chunks = 1024;

/// Its frame and its bytes say the same of the chunks.
bool is_cut_right(const protocol::frame& first, const reference& what) noexcept;
/// What the frame of one of its chunks would say, which did not come by itself. @pre is_cut_right
protocol::frame frame_of_chunk(const protocol::frame& first, const reference& what,
                               std::uint32_t index) noexcept;

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
