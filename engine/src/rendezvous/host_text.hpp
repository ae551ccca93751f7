// Hosts as users write them.
#pragma once

#include <string>
#include <string_view>

namespace tandem::rendezvous {

/// Parses a host as users write it into MASTER_ADDR: removes the brackets of "[::1]" and blanks
/// at both ends. "[::1]" and " ::1 " are "::1"; "node1:29500", "tcp://node1" and "[node1]" are
/// refused, as the user may mean something else.
/// @param variable  name of its source, for the error: "MASTER_ADDR".
/// @param text  as it is there.
/// @par Errors `errc::bad_input`: it holds a port or is a URL, brackets around a name, no IPv6
///   address where there are colons, a zone that this host does not have or a link-local address
///   without one. The text says which, and what to write instead.
/// @return  a name or a numeric address, which is not resolved: `detail::numeric_address` tells
///   them apart.
std::string parse_host(std::string_view variable, std::string_view text);

/// True for "localhost" in any case, with or without a final dot, and for loopback addresses.
/// Other names are not resolved: whether one leads to this host is known after the look-up only.
bool is_loopback_host(const std::string& host);

}  // namespace tandem::rendezvous
