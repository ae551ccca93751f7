#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "devices/sharing.hpp"

namespace tandem::devices {

/// The first message each way on the flow of frames, 64 bytes, little endian:
///
///    0 magic "TNDMDEVS"    8 version u32    12 maximum credit u32
///   16 memory kinds of this end, bits u32   20 maximum inline bytes of a frame u32
///   24 host               40 process                56 flags u32
///   60 CRC32C of bytes 0..59
///
/// Everything else follows from the limits of the inner channel, which both ends know.
struct handshake {
  std::uint32_t version = 4;
  std::uint32_t credit_bytes = 0;
  std::uint32_t kinds = 0;
  std::uint32_t inline_bytes = 0;
  process_location where{};  ///< zeros: shares no memory with peers
  std::uint32_t flags = 0;
};

// Flags of a handshake: in effect where both ends set them.
constexpr std::uint32_t wants_peer_copies = 1;
constexpr std::uint32_t wants_shared_staging = 2;

constexpr std::size_t handshake_bytes = 64;

void encode(const handshake& from, std::span<std::byte, handshake_bytes> to) noexcept;
/// `why` stays empty if the bytes are a handshake of this version, else says what is wrong.
handshake decode(std::span<const std::byte> from, std::string& why);

}  // namespace tandem::devices
