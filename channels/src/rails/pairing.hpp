#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::rails {

namespace asio = boost::asio;

/// Where a rail of a rank listens.
struct door {
  asio::ip::address where;
  unsigned prefix = 0;  ///< bits of the subnet
  std::uint16_t port = 0;
  std::uint16_t rdma_port = 0;  ///< where lanes over RDMA are set up; 0: none

  friend bool operator==(const door&, const door&) = default;
};

/// A rail as a rank tells the others of it.
struct published_rail {
  std::string interface;
  std::vector<door> doors;  ///< one for each address

  friend bool operator==(const published_rail&, const published_rail&) = default;
};

constexpr std::size_t max_doors = 8;                 ///< of one rail
constexpr std::size_t max_published_bytes = 16'384;  ///< of one line

/// One line of text, "rails 1 eth0=10.1.0.2/24:4000~4002+fd00::2/64:4001 eth1=...", where ~ leads
/// to what RDMA needs. Letters that the line needs for itself become `?` in names; rails and doors
/// beyond the limits are left out.
std::string encode(const std::vector<published_rail>& rails);

/// @par Errors `errc::version_mismatch`; `errc::protocol_violation`: the bytes are hostile or
/// damaged. Costs no more memory than the line.
std::vector<published_rail> decode(std::string_view line);

struct rail_pair {
  std::size_t mine = 0, theirs = 0;         ///< indices of the rails
  std::size_t my_door = 0, their_door = 0;  ///< of their doors
  bool same_subnet = false;

  friend bool operator==(const rail_pair&, const rail_pair&) = default;
};

struct unpaired_rail {
  bool is_mine = true;
  std::size_t rail = 0;
  std::string why;  ///< "eth2: the peer has 2 rails only"
};

struct pairing {
  std::vector<rail_pair> pairs;
  std::vector<unpaired_rail> unpaired;
};

/// Pairs rails that share a subnet, equal positions first, then what is left by order, where both
/// have an address of one family. Loopback goes with loopback only. Both ends find the same pairs
/// in the same order, whichever calls itself `mine`. Takes at most `max_rails` squared steps for
/// each pair of doors.
pairing pair_rails(const std::vector<published_rail>& mine,
                   const std::vector<published_rail>& theirs);

}  // namespace tandem::rails
