#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tandem::rails {

/// The header of everything on a lane (a TCP connection or queue pair of a rail): 64 bytes, little
/// endian, version 1, followed by what its kind requires:
///
///    0 magic u32 "TNDR"   4 version u8   5 kind u8   6 lane u16    8 epoch u32
///   12 number u32        16 order u32   20 arrived u32   24 body bytes u32
///   28 CRC32C of bytes 0..27   32 reserved, ignored
///
/// With a frame of 64 bytes behind it, the payload keeps its alignment to cache lines: behind 96
/// bytes the kernel's copies of chunks took a tenth longer (AMD Zen 4, loopback).
///
/// | field     | meaning                                                                       |
/// |-----------|-------------------------------------------------------------------------------|
/// | `number`  | of the packet in its direction, over all lanes; kept when it is sent again    |
/// | `order`   | of frames that must be read in sequence; 0 for chunks; of a body: its CRC32C  |
/// | `arrived` | of the other direction: every packet below it was received (cumulative)       |
enum class envelope_kind : std::uint8_t {
  packet = 1,  ///< a frame of the protocol follows, and its payload
  report = 2,  ///< acknowledgement; bit i of the body: packet `arrived` + i too. Also the heartbeat
  fenced = 3,  ///< this lane and epoch is closed at the sender; body as in a report, final
};

/// Flag in `number` of a fence: the sender still needs the peer's fence.
constexpr std::uint32_t wants_reply = 1;

struct envelope {
  envelope_kind kind = envelope_kind::report;
  std::uint16_t lane = 0;
  std::uint32_t epoch = 0;
  std::uint32_t number = 0;
  std::uint32_t order = 0;  ///< or the CRC32C of the body
  std::uint32_t arrived = 0;
  std::uint32_t body_bytes = 0;
};

constexpr std::size_t envelope_bytes = 64;
using wire_envelope = std::array<std::byte, envelope_bytes>;

/// Packets of one direction that may be in flight at once, and so the longest body in bits.
constexpr std::uint32_t max_packets = 4096;
constexpr std::size_t max_body_bytes = max_packets / 8;

void encode(const envelope& from, std::span<std::byte, envelope_bytes> to) noexcept;
/// Empty if the bytes are not an envelope of this version; `why` is then the reason.
std::optional<envelope> decode(std::span<const std::byte, envelope_bytes> from, std::string& why);

/// How far `a` is ahead of `b` modulo 2^32 (serial number arithmetic); negative: behind.
constexpr std::int32_t ahead(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>(a - b);
}

}  // namespace tandem::rails
