#pragma once

#include <boost/asio/ip/address.hpp>
#include <functional>
#include <optional>
#include <string>
#include <tandem/settings.hpp>

namespace tandem::c {

/// An address of this host for ranks of other hosts: the one that MASTER_ADDR names, else of the
/// first interface that is up, IPv4 first. Empty: there is none.
/// @par Errors thrown: `errc::unreachable`: the resolver does not answer for MASTER_ADDR.
std::optional<boost::asio::ip::address> find_external_address(const settings& options);

/// An address of the first interface that is up and whose name is chosen, also loopback.
std::optional<boost::asio::ip::address> find_interface_address(
    const settings& options, const std::function<bool(const std::string& interface)>& is_chosen);

}  // namespace tandem::c
