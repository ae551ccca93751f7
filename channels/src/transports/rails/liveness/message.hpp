#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tandem/secret.hpp>

namespace tandem::rails::liveness {

enum class message_kind : std::uint32_t { probe = 1, answer = 2 };

/// A datagram between the monitors of two ranks.
///
/// | bytes | field                                                          |
/// |-------|----------------------------------------------------------------|
/// | 0-3   | "TDL1"                                                         |
/// | 4-7   | kind                                                           |
/// | 8-15  | from, to: ranks                                                |
/// | 16-23 | nonce of the probe, repeated by its answer                     |
/// | 24-27 | answer: for how many ms the event loop of `from` has not run   |
/// | 28-43 | the first half of an HMAC-SHA256 of what precedes; of the empty key without a job
/// secret |
///
/// Numbers are little-endian.
struct message {
  message_kind kind = message_kind::probe;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t nonce = 0;
  std::uint32_t busy_ms = 0;

  friend bool operator==(const message&, const message&) = default;
};

constexpr std::size_t message_bytes = 44;

std::array<std::byte, message_bytes> encode(const message& what, const secret& key);
/// Empty: another length, not a message of this version, or not authenticated by this key.
std::optional<message> decode(std::span<const std::byte> bytes, const secret& key);

}  // namespace tandem::rails::liveness
