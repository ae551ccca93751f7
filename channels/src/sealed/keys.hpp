#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tandem/secret.hpp>

namespace tandem::sealed {

/// The keys by which one end of a connection seals and opens; empty: plaintext.
struct keys {
  keys() = default;
  keys(secret seals, secret opens) : outgoing(std::move(seals)), incoming(std::move(opens)) {}
  bool empty() const noexcept { return outgoing.empty(); }

  secret outgoing, incoming;
};

enum class side : std::uint8_t { connector, listener };

/// A key for each direction of one connection: HKDF-SHA256 of the secret that both ends have
/// proven, with their hellos, which hold a fresh nonce each, as salt and the direction as info.
/// Both hellos have a fixed length.
keys derive_keys(const secret& known, std::span<const std::byte> of_connector,
                 std::span<const std::byte> of_listener, side which);

}  // namespace tandem::sealed
