#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tandem/channel.hpp>

namespace tandem::protocol {

/// The unit that travels between two ends. 64 bytes, little endian, version 1:
///
///    0 magic u32 "TNDM"   4 version u8      5 type u8         6 flags u16
///    8 job epoch u32     12 rail epoch u32 16 message id u64
///   24 chunk index u32   28 chunk count u32 32 offset u64
///   40 payload bytes u32 44 flow u32       48 payload CRC32C u32 (0: none)
///   52 credit u32        56 note's history 60 CRC32C of bytes 0..59
///
/// Eager, announce and refuse frames carry the note's call (u64) at 24 instead of chunk index and
/// count. An announce frame carries the chunk bytes instead of the CRC.
/// `message id` is assigned by the sender: a running number << 16 | its slot; an eager message has
/// no slot. `credit` is the total of eager bytes that the writer of the frame has consumed on this
/// flow, modulo 2^32: a total rather than a difference, so that a frame may be lost or repeated.
/// `chunk bytes` of an announcement is the length of every chunk of the message but the last;
/// 0: the negotiated length. In a grant, `flags` is the lane, `rail epoch` the lane's epoch, and
/// `chunk index` the key.
enum class frame_type : std::uint8_t {
  eager = 1,     ///< a whole short message
  announce = 2,  ///< a message of `offset` bytes waits for its receive
  accept = 3,    ///< the receive for `message id` is posted: send the data
  refuse = 4,    ///< the receive's view has only `offset` bytes, or its note differs
  data = 5,      ///< a chunk of an accepted message, at `offset`
  withdraw = 6,  ///< the sender cancels `message id`
  credit = 7,    ///< carries only the credit
  close = 8,     ///< the writer closes the channel
  grant = 9,     ///< before the accept: a NIC may write `message id` to the address `offset`
  revoke = 10,   ///< the receive has ended: NICs must stop writing `message id`
  revoked = 11,  ///< confirms a revoke: no NIC writes any more
};
constexpr frame_type last_frame_type = frame_type::revoked;

/// Flag of a close frame: the writer closes because of an error, possibly of another rank.
constexpr std::uint16_t after_error = 1;

/// Flag of a data frame: no payload follows, a NIC has written it to its final address.
constexpr std::uint16_t direct_placement = 1;

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
  call_signature signature = {};  ///< of the message, or of the receive that refuses it
  std::uint32_t chunk_bytes = 0;
};

/// True where a NIC has written the payload of this frame to its final address.
inline bool is_placed(const frame& f) noexcept {
  return f.type == frame_type::data && (f.flags & direct_placement) != 0;
}

constexpr std::size_t frame_bytes = 64;
constexpr std::uint32_t frame_magic = 0x4d444e54;  // "TNDM"
constexpr std::uint8_t protocol_version = 1;

using wire_frame = std::array<std::byte, frame_bytes>;

/// Flag of a refusal: the notes of the message and the receive differ.
constexpr std::uint16_t note_mismatch = 1;

/// The types that carry a note in the place of the chunk fields.
constexpr bool carries_note(frame_type type) noexcept {
  return type == frame_type::eager || type == frame_type::announce || type == frame_type::refuse;
}
/// The types that a payload follows, unless it was placed directly.
constexpr bool carries_payload(frame_type type) noexcept {
  return type == frame_type::eager || type == frame_type::data;
}

/// The frame that closes the channel for this reason.
frame close_frame_for(const error& reason) noexcept;

void encode(const frame& from, wire_frame& to) noexcept;
/// Empty if the bytes are not a frame of this version; `why` then holds the reason.
std::optional<frame> decode(std::span<const std::byte, frame_bytes> from, std::string& why);

/// Unaligned little-endian integers.
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
