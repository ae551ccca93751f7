#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tandem/detail/trust.hpp>
#include <tandem/secret.hpp>
#include <utility>

namespace tandem::sealed {

namespace asio = boost::asio;

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
inline keys derive_keys(const secret& known, std::span<const std::byte> of_connector,
                        std::span<const std::byte> of_listener, side which) {
  std::string hellos;
  for (const auto& one : {of_connector, of_listener}) {
    hellos.append(reinterpret_cast<const char*>(one.data()), one.size());
  }
  keys made(trust::derive_key(known, "tandem sealed by connector", hellos),
            trust::derive_key(known, "tandem sealed by listener", hellos));
  if (which == side::listener) std::swap(made.outgoing, made.incoming);
  return made;
}

/// A connected socket after the handshake, and the keys for what follows.
struct connection {
  connection(asio::ip::tcp::socket connected, keys with = {})
      : socket(std::move(connected)), seal(std::move(with)) {}

  asio::ip::tcp::socket socket;
  keys seal;
};

}  // namespace tandem::sealed
