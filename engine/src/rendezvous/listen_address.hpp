#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <tandem/launch.hpp>
#include <vector>

namespace tandem::rendezvous {

/// Where rank 0 serves its store, decided without I/O from what its address resolves to.
struct listen_address {
  boost::asio::ip::tcp::endpoint at;
  std::string text;  ///< "[::]:29500 (all interfaces; 'n1' resolves to 127.0.1.1)", for errors
};

/// What this rank knows of the address that the launcher gave, and of who may come.
struct host_facts {
  std::string host;  ///< as given, without brackets
  std::uint16_t port = 0;
  std::vector<boost::asio::ip::address> resolved;
  bool spans_hosts = false;  ///< the launcher says that ranks run on other hosts
  bool is_one_host = false;  ///< the launcher says that all ranks run here
  bool is_open = false;      ///< ranks of other hosts may come: a secret, or `insecure`
};

host_facts facts_of(const launch_info& who, bool is_open,
                    std::vector<boost::asio::ip::address> resolved);

/// The addresses that this rank may use of what the name resolves to: without a secret those of
/// loopback only, on every rank.
/// @par Errors `errc::bad_input`: none is left, or ranks of other hosts could not come there.
std::vector<boost::asio::ip::address> allowed_addresses(const host_facts& known);

/// A name that stands for loopback only (Debian's own name in /etc/hosts) with ranks elsewhere, and
/// one with several addresses, listen on every interface; else the address itself is bound to.
/// @param is_here  whether this host has an address. @par Errors `errc::bad_input`: it has none.
listen_address choose_listen_address(
    const host_facts& known, const std::function<bool(const boost::asio::ip::address&)>& is_here);

/// Whether a socket of this host can be bound to it.
bool is_address_here(const boost::asio::ip::address& address);
/// "10.0.0.1 (eth0), 127.0.0.1 (lo)".
std::string addresses_here();
/// "127.0.1.1, 10.0.0.1".
std::string list(const std::vector<boost::asio::ip::address>& all);

}  // namespace tandem::rendezvous
