#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Rails: many NICs as one channel. A rail is one NIC on each side and the lanes between them.
namespace tandem::rails {

namespace asio = boost::asio;

/// The kind of an interface, as far as the selection of rails needs it.
enum class nic_kind : std::uint8_t {
  ethernet,       ///< a port, physical or of a virtual machine
  infiniband_ip,  ///< IP over InfiniBand
  wireless,
  bond,
  vlan,  ///< vlan, macvlan, ipvlan: a second interface on another one
  bridge,
  veth,    ///< one end of a pair; the other is often in another network namespace
  tunnel,  ///< tun, wireguard, vxlan, gre, ppp
  loopback,
  other,  ///< dummy, ifb and unknown kinds
};
std::string_view name(nic_kind kind) noexcept;

struct nic_address {
  asio::ip::address where;
  unsigned prefix = 0;   ///< bits of the subnet
  std::string unusable;  ///< why it is not selected by default ("link-local"); empty: usable
};

/// One network interface of this machine (of this network namespace).
struct nic {
  std::string name;
  int index = 0;
  std::vector<nic_address> addresses;  ///< in the kernel's order
  bool up = false;                     ///< administratively up
  bool carrier = false;                ///< it has a link
  nic_kind kind = nic_kind::other;
  std::int64_t speed_mbit = -1;    ///< -1: unknown
  int numa_node = -1;              ///< -1: unknown, or the machine has one
  std::string mac;                 ///< "02:00:00:00:00:01"; empty: none
  int mtu = 0;                     ///< bytes
  bool hardware = false;           ///< a port, or on top of one (bond, vlan, bridge with a port)
  bool leaves_namespace = false;   ///< its other end is in another network namespace
  std::vector<std::string> lower;  ///< the interfaces below it: members, or the parent
  std::string master;              ///< the bond or bridge it is a member of; empty: none
};

/// The interfaces of this machine by index: from rtnetlink, with speed and NUMA node from sysfs
/// where it shows this network namespace. Reads only; a millisecond.
/// @par Errors `boost::system::system_error` where the kernel refuses the request.
std::vector<nic> find_nics();

/// True where `where` lies in the subnet `network`/`prefix`. An address is in no subnet of the
/// other family.
bool in_subnet(const asio::ip::address& where, const asio::ip::address& network,
               unsigned prefix) noexcept;

}  // namespace tandem::rails
