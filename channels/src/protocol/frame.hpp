#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tandem/operation.hpp>

namespace tandem::protocol {

/// What travels between two ends. Everything below is little endian, 64 bytes, version 1:
///
///    0 magic u32 "TNDM"   4 version u8      5 type u8         6 flags u16
///    8 job epoch u32     12 rail epoch u32 16 message id u64
///   24 chunk index u32   28 chunk count u32 32 offset u64
///   40 payload bytes u32 44 flow u32       48 payload CRC32C u32 (0: none)
///   52 credit u32        56 note's history 60 CRC32C of bytes 0..59
///
/// What starts or refuses a message has no chunk index and count, but u64 at 24: the note's call.
/// What announces one has chunk bytes in the place of the CRC.
/// `message id` is the sender's: a running number << 16 | its slot; an eager message has no slot.
/// `credit` is the sum of eager bytes that the writer of the frame has ever consumed on this flow,
/// modulo 2^32: a total, not a difference, so that a frame may be lost or repeated. `chunk bytes`,
/// of an announcement, says how long each chunk of the message but the last will be; 0: as agreed.
/// Of a grant, `flags` is the lane, `rail epoch` its epoch, and `chunk index` the key.
enum class frame_type : std::uint8_t {
  eager = 1,     ///< a whole short message
  announce = 2,  ///< a message of `offset` bytes waits for a receive
  accept = 3,    ///< the receive for `message id` is there: send the data
  refuse = 4,    ///< the receive's view has but `offset` bytes, or its note differs
  data = 5,      ///< a chunk of an accepted message, at `offset`
  withdraw = 6,  ///< the sender gives up `message id`
  credit = 7,    ///< nothing but the credit
  goodbye = 8,   ///< the writer closes in an orderly way
  grant = 9,     ///< before the accept: a NIC may write `message id` to the address `offset`
  revoke = 10,   ///< the receive is over: no NIC shall write `message id` any more
  revoked = 11,  ///< none does
};
constexpr frame_type last_frame_type = frame_type::revoked;

/// Flag of a goodbye: the writer gives up because of an error, perhaps another rank's.
constexpr std::uint16_t in_failure = 1;

/// Flag of data: the payload does not follow, a NIC has written it where it belongs.
constexpr std::uint16_t in_place = 1;

struct frame {
  frame_type type = frame_type::credit;
  std::uint16_t flags = 0;
  std::uint32_t job_epoch = 0;
  std::uint32_t rail_epoch = 0;
  std::uint64_t message_id = 0;
  std::uint32_t chunk_index = 0;
  std::uint32_t chunk_count = 0;
  std::uint64_t offset = 0;
  std::uint32_t payload_bytes = 0;
  flow_id flow = 0;
  std::uint32_t payload_crc = 0;
  std::uint32_t credit = 0;
  message_note note = {};  ///< of the message, or of the receive that refuses it
  std::uint32_t chunk_bytes = 0;
};

/// The payload of this frame is not behind it: a NIC has written it where it belongs.
inline bool is_placed(const frame& f) noexcept {
  return f.type == frame_type::data && (f.flags & in_place) != 0;
}

constexpr std::size_t frame_bytes = 64;
constexpr std::uint32_t frame_magic = 0x4d444e54;  // "TNDM"
constexpr std::uint8_t protocol_version = 1;

using wire_frame = std::array<std::byte, frame_bytes>;

/// Flag of a refusal: the notes differ.
constexpr std::uint16_t of_another_call = 1;

/// What carries a note, where others have their chunk.
constexpr bool carries_note(frame_type type) noexcept {
  return type == frame_type::eager || type == frame_type::announce || type == frame_type::refuse;
}
/// The payload follows the frame only for these two, and not where it is in place already.
constexpr bool carries_payload(frame_type type) noexcept {
  return type == frame_type::eager || type == frame_type::data;
}

void encode(const frame& from, wire_frame& to) noexcept;
/// Empty if the bytes are no frame of this version; `why` then says what is wrong with them.
std::optional<frame> decode(std::span<const std::byte, frame_bytes> from, std::string& why);

/// Little-endian integers at unaligned places.
template <class Integer>
void put(std::byte* at, Integer value) noexcept {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    at[i] = static_cast<std::byte>(value & 0xff);
    value = static_cast<Integer>(static_cast<std::uint64_t>(value) >> 8);
  }
}
template <class Integer>
Integer take(const std::byte* at) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = sizeof(Integer); i-- > 0;)
    value = value << 8 | static_cast<std::uint8_t>(at[i]);
  return static_cast<Integer>(value);
}

}  // namespace tandem::protocol
