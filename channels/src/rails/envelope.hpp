#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tandem::rails {

/// What travels on a lane: one stream of a rail, one of its connections or queue pairs. An envelope
/// of 64 bytes, little endian, version 1, then what its kind says:
///
///    0 magic u32 "TNDR"   4 version u8   5 kind u8   6 lane u16    8 epoch u32
///   12 number u32        16 order u32   20 arrived u32   24 body bytes u32
///   28 CRC32C of bytes 0..27   32 nothing, ignored
///
/// With a frame of 64 bytes behind it, what follows keeps its place within the lines of a cache:
/// of chunks behind 96 bytes the kernel's copies took a tenth longer (AMD Zen 4, loopback).
///
/// `number` counts the parcels of one direction, over all lanes; a parcel keeps it when it is sent
/// again. `order` counts those whose frames must be read one after the other; 0 for chunks, which
/// may come in any order; of a body, its CRC32C. `arrived` says of the other direction: every
/// parcel below it is here.
enum class envelope_kind : std::uint8_t {
  parcel = 1,  ///< a frame of the protocol follows, and its payload
  report = 2,  ///< body: bit i says that parcel `arrived` + i is here too. Also the heartbeat
  fenced = 3,  ///< no byte of this lane and epoch is read any more; body as in a report, final
};

/// Flag in `number` of a fenced: the writer still needs the peer's own.
constexpr std::uint32_t wants_answer = 1;

struct envelope {
  envelope_kind kind = envelope_kind::report;
  std::uint16_t lane = 0;
  std::uint32_t epoch = 0;
  std::uint32_t number = 0;
  std::uint32_t order = 0;  ///< or the checksum of the body
  std::uint32_t arrived = 0;
  std::uint32_t body_bytes = 0;
};

constexpr std::size_t envelope_bytes = 64;
using wire_envelope = std::array<std::byte, envelope_bytes>;

/// Parcels of one direction that may be on their way at once, and so the longest body in bits.
constexpr std::uint32_t most_parcels = 4096;
constexpr std::size_t most_body_bytes = most_parcels / 8;

void encode(const envelope& from, std::span<std::byte, envelope_bytes> to) noexcept;
/// Empty if the bytes are no envelope of this version; `why` then says what is wrong with them.
std::optional<envelope> decode(std::span<const std::byte, envelope_bytes> from, std::string& why);

/// How far `a` is ahead of `b` in numbers modulo 2^32; negative where it is behind.
constexpr std::int32_t ahead(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>(a - b);
}

}  // namespace tandem::rails
