#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rails/nic.hpp"

namespace tandem::rails {

/// How far a socket is tied to its NIC.
struct binding {
  bool address = false;  ///< packets carry the NIC's address
  bool device = false;   ///< and leave by that NIC only, whatever the routes say
  std::string why_not;   ///< why `device` is false; empty where it is true
};

/// Ties an open, unconnected socket to a NIC: to its address, port left open, and to the device
/// where that is permitted (SO_BINDTODEVICE: CAP_NET_RAW before Linux 5.7). Of two NICs in one
/// subnet, the address alone does not decide by which one packets leave.
/// @param peer_is_here  the peer is on this machine (`is_here`): what it is sent goes by loopback,
/// and a socket tied to one NIC would not reach the address of another, so that it is not tied.
/// @par Errors `errc::bad_input`: `source` is no address of this machine, or of another family than
/// the socket.
binding bind_nic(asio::ip::tcp::socket& fresh, const nic& to, const asio::ip::address& source,
                 bool peer_is_here);

/// True where `where` is an address of this machine.
bool is_here(const std::vector<nic>& nics, const asio::ip::address& where) noexcept;

/// Bytes that left by an interface since it exists; nothing where the kernel does not tell.
std::optional<std::uint64_t> sent_by(const std::string& interface);

enum class leaving : std::uint8_t {
  by_it,       ///< at least what was sent left by the interface
  by_another,  ///< less left by it than was sent
  unknown,     ///< no counters, or they began anew meanwhile
};

/// Did `bytes` of payload for another machine leave by the interface between two readings of its
/// counter? Other traffic can hide that they did not; none can show it wrongly, once the bytes are
/// acknowledged.
leaving leaving_check(std::optional<std::uint64_t> before, std::optional<std::uint64_t> after,
                      std::uint64_t bytes) noexcept;

}  // namespace tandem::rails
