#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::rails {

namespace asio = boost::asio;

/// An address and the ports on which a rail of a rank listens.
struct listen_endpoint {
  asio::ip::address where;
  unsigned prefix = 0;  ///< bits of the subnet
  std::uint16_t port = 0;
  std::uint16_t rdma_port = 0;  ///< where RDMA lanes are set up; 0: none

  friend bool operator==(const listen_endpoint&, const listen_endpoint&) = default;
};

/// A rail as a rank publishes it.
struct published_rail {
  std::string interface;
  std::vector<listen_endpoint> endpoints;  ///< one for each address

  friend bool operator==(const published_rail&, const published_rail&) = default;
};

constexpr std::size_t max_endpoints = 8;             ///< of one rail
constexpr std::size_t max_published_bytes = 16'384;  ///< of one line

/// One line of text, "rails 1 eth0=10.1.0.2/24:4000~4002+fd00::2/64:4001 eth1=...", where the port
/// of RDMA setup follows the ~. Reserved characters become `?` in names; rails and endpoints beyond
/// the limits are left out.
std::string encode(const std::vector<published_rail>& rails);

/// @par Errors `errc::version_mismatch`; `errc::protocol_violation`: the line is malformed.
/// Allocates no more memory than the line is long.
std::vector<published_rail> decode(std::string_view line);

struct rail_pair {
  std::size_t local = 0, remote = 0;                                ///< indices of the rails
  std::size_t local_endpoint_index = 0, remote_endpoint_index = 0;  ///< of their listen endpoints
  bool same_subnet = false;

  friend bool operator==(const rail_pair&, const rail_pair&) = default;
};

struct unpaired_rail {
  bool is_local = true;
  std::size_t rail = 0;
  std::string why;  ///< "eth2: the peer has 2 rails only"
};

struct pairing {
  std::vector<rail_pair> pairs;
  std::vector<unpaired_rail> unpaired;
};

/// Pairs rails that share a subnet, equal positions first, then the remaining ones by order, where
/// both have an address of one family. Loopback is paired with loopback only. Both ends compute the
/// same pairs in the same order. At most `max_rails` squared steps for each pair of endpoints.
pairing pair_rails(const std::vector<published_rail>& local,
                   const std::vector<published_rail>& remote);

}  // namespace tandem::rails
