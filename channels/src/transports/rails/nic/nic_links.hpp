#pragma once

#include <string>
#include <vector>

struct nlmsghdr;

namespace tandem::rails {

/// An interface as the kernel reports it for RTM_GETLINK.
struct kernel_link {
  int index = 0;
  std::string name;
  std::string mac;
  std::string driver;  ///< IFLA_INFO_KIND: "veth", "bridge"; empty for a port
  unsigned flags = 0;  ///< IFF_*
  unsigned type = 0;   ///< ARPHRD_*
  int mtu = 0;
  bool carrier = false;         ///< IFF_RUNNING follows it up to a second later
  int master = 0;               ///< index of the bond or bridge; 0: none
  int parent = 0;               ///< index of the peer or of the interface below; 0: none
  bool parent_outside = false;  ///< `parent` is an index of another network namespace
};

/// All interfaces of this network namespace. From rtnetlink, since sysfs shows the namespace in
/// which it was mounted, and does not show that a veth's peer is in another one.
/// @par Errors `boost::system::system_error`.
std::vector<kernel_link> find_links();

/// Parses an RTM_NEWLINK or RTM_DELLINK message.
kernel_link read_link(const nlmsghdr* message);

}  // namespace tandem::rails
