#pragma once

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::rendezvous {

/// The host in `text` as people write it into MASTER_ADDR: without the brackets of "[::1]", and
/// without blanks at its ends.
/// @param variable  where it comes from, for the error.
/// @par Errors `errc::bad_input`: it holds a port or is a URL, brackets around a name, no IPv6
///   address where there are colons, a zone that this host does not have or a link-local address
///   without one.
std::string parse_host(std::string_view variable, std::string_view text);

/// The numeric address that a host is, an IPv4 address where an IPv6 one stands for it; empty for
/// a name, which is to be looked up.
std::optional<boost::asio::ip::address> numeric_address(const std::string& host);

/// "::ffff:10.0.0.1" is 10.0.0.1.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// "localhost" in any case, with or without its dot, and addresses of loopback.
bool is_loopback_host(const std::string& host);

}  // namespace tandem::rendezvous
