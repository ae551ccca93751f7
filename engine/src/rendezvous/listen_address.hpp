#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <tandem/launch.hpp>
#include <vector>

namespace tandem::rendezvous {

/// The endpoint of rank 0's store, chosen without I/O from the addresses its name resolves to.
struct listen_address {
  boost::asio::ip::tcp::endpoint at;
  std::string text;  ///< "[::]:29500 (all interfaces; 'n1' resolves to 127.0.1.1)", for errors
};

/// What this rank knows about the address that the launcher gave, and about the ranks.
struct host_facts {
  std::string host;  ///< as given, without brackets
  std::uint16_t port = 0;
  std::vector<boost::asio::ip::address> resolved;
  bool spans_hosts = false;  ///< by the launcher: some ranks run on other hosts
  bool is_one_host = false;  ///< by the launcher: all ranks run on this host
  bool is_open = false;      ///< ranks of other hosts may join: a secret, or `insecure`
};

host_facts facts_of(const launch_info& who, bool is_open,
                    std::vector<boost::asio::ip::address> resolved);

/// The resolved addresses that this rank may use: without a secret only loopback addresses, on
/// every rank.
/// @par Errors `errc::bad_input`: none is left, or ranks of other hosts could not reach them.
std::vector<boost::asio::ip::address> allowed_addresses(const host_facts& known);

/// Chooses all interfaces for a name that resolves to loopback only (Debian maps the host's own
/// name so in /etc/hosts) with ranks on other hosts, and for a name with several addresses; else
/// the address itself.
/// @param is_here  whether this host has an address.
/// @par Errors `errc::bad_input`: this host has none of the addresses.
listen_address choose_listen_address(
    const host_facts& known, const std::function<bool(const boost::asio::ip::address&)>& is_here);

/// Whether a socket of this host can be bound to it.
bool is_local_address(const boost::asio::ip::address& address);
/// All addresses of this host: "10.0.0.1 (eth0), 127.0.0.1 (lo)".
std::string local_addresses_text();
/// "127.0.1.1, 10.0.0.1".
std::string list(const std::vector<boost::asio::ip::address>& all);

}  // namespace tandem::rendezvous
