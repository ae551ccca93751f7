#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transports/rails/nic/nic.hpp"

namespace tandem::rails {

/// How far a socket is bound to its NIC.
struct binding {
  bool address = false;  ///< packets carry the NIC's address
  bool device = false;   ///< packets leave by that NIC only, whatever the routes are
  std::string why_not;   ///< why `device` is false; empty where it is true
};

/// Binds an open, unconnected socket to a NIC: to its address with any port, and to the device
/// where that is permitted (SO_BINDTODEVICE: CAP_NET_RAW before Linux 5.7). With two NICs in one
/// subnet, the address alone does not decide by which one packets leave.
/// @param peer_is_local  the peer is on this machine (`is_local_address`). Its traffic goes over
/// loopback, and a socket bound to one device could not reach the address of another, so it is not
/// bound.
/// @par Errors `errc::bad_input`: `source` is not an address of this machine, or of another family
/// than the socket.
binding bind_nic(asio::ip::tcp::socket& fresh, const nic& to, const asio::ip::address& source,
                 bool peer_is_local);

/// True where `where` is an address of this machine.
bool is_local_address(const std::vector<nic>& nics, const asio::ip::address& where) noexcept;

/// The tx_bytes counter of an interface; empty where the kernel does not provide it.
std::optional<std::uint64_t> tx_bytes_of(const std::string& interface);

enum class egress : std::uint8_t {
  as_bound,   ///< the interface sent at least as many bytes
  elsewhere,  ///< the interface sent fewer bytes
  unknown,    ///< no counters, or they were reset in between
};

/// Whether `bytes` of payload for another machine left by the interface between two readings of its
/// counter. Other traffic can hide that they did not. Once the bytes are acknowledged, `elsewhere`
/// is never reported wrongly.
egress check_egress(std::optional<std::uint64_t> before, std::optional<std::uint64_t> after,
                    std::uint64_t bytes) noexcept;

}  // namespace tandem::rails
