#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Rails: many NICs as one channel. A rail is a NIC on each side and the streams between them.
namespace tandem::rails {

namespace asio = boost::asio;

/// What an interface is, as far as the choice of rails cares.
enum class nic_kind : std::uint8_t {
  ethernet,       ///< a port, real or of a virtual machine
  infiniband_ip,  ///< IP over InfiniBand
  wireless,
  bond,
  vlan,  ///< vlan, macvlan, ipvlan: a second interface on another one
  bridge,
  veth,    ///< one end of a pair; the other is often in another network namespace
  tunnel,  ///< tun, wireguard, vxlan, gre, ppp
  loopback,
  other,  ///< dummy, ifb and what nobody knows
};
std::string_view name(nic_kind kind) noexcept;

struct nic_address {
  asio::ip::address where;
  unsigned prefix = 0;   ///< bits of the subnet
  std::string unusable;  ///< why it cannot be a rail by itself ("link-local"); empty: it can
};

/// One network interface of this machine (of this network namespace).
struct nic {
  std::string name;
  int index = 0;
  std::vector<nic_address> addresses;  ///< in the kernel's order
  bool up = false;                     ///< an administrator switched it on
  bool carrier = false;                ///< it has a link
  nic_kind kind = nic_kind::other;
  std::int64_t speed_mbit = -1;    ///< -1: unknown
  int numa_node = -1;              ///< -1: unknown, or the machine has one
  std::string mac;                 ///< "02:00:00:00:00:01"; empty: none
  int mtu = 0;                     ///< bytes
  bool hardware = false;           ///< a port, or stands on one (bond, vlan, bridge with a port)
  bool leaves_namespace = false;   ///< its other end is in another network namespace
  std::vector<std::string> lower;  ///< the interfaces that it stands on: members, or the parent
  std::string master;              ///< the bond or bridge it is a member of; empty: none
};

/// The interfaces of this machine by index: from rtnetlink, with speed and NUMA node from sysfs
/// where it shows this network namespace. Reads only; a millisecond.
/// @par Errors `boost::system::system_error` where the kernel refuses the question.
std::vector<nic> find_nics();

/// True where `where` lies in the subnet `network`/`prefix`. An address is in no subnet of the
/// other family.
bool in_subnet(const asio::ip::address& where, const asio::ip::address& network,
               unsigned prefix) noexcept;

}  // namespace tandem::rails
