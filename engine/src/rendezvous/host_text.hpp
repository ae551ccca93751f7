#pragma once

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::rendezvous {

/// Parses a host as users write it into MASTER_ADDR: removes the brackets of "[::1]" and blanks
/// at both ends.
/// @param variable  name of its source, for the error.
/// @par Errors `errc::bad_input`: it holds a port or is a URL, brackets around a name, no IPv6
///   address where there are colons, a zone that this host does not have or a link-local address
///   without one.
std::string parse_host(std::string_view variable, std::string_view text);

/// The host as a numeric address, IPv4-mapped IPv6 addresses as IPv4; empty for a name, which has
/// to be resolved.
std::optional<boost::asio::ip::address> numeric_address(const std::string& host);

/// An IPv4-mapped IPv6 address as IPv4: "::ffff:10.0.0.1" is 10.0.0.1.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// True for "localhost" in any case, with or without a final dot, and for loopback addresses.
bool is_loopback_host(const std::string& host);

}  // namespace tandem::rendezvous
