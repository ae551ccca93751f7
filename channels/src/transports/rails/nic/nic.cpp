#include "transports/rails/nic/nic.hpp"

#include <ifaddrs.h>
#include <linux/if_arp.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "transports/rails/nic/nic_links.hpp"

namespace tandem::rails {
namespace {

using table_of_kinds = std::pair<std::string_view, nic_kind>;
constexpr std::array<table_of_kinds, 18> drivers{{{"bond", nic_kind::bond},
                                                  {"team", nic_kind::bond},
                                                  {"vlan", nic_kind::vlan},
                                                  {"macvlan", nic_kind::vlan},
                                                  {"ipvlan", nic_kind::vlan},
                                                  {"bridge", nic_kind::bridge},
                                                  {"openvswitch", nic_kind::bridge},
                                                  {"veth", nic_kind::veth},
                                                  {"netkit", nic_kind::veth},
                                                  {"tun", nic_kind::tunnel},
                                                  {"wireguard", nic_kind::tunnel},
                                                  {"vxlan", nic_kind::tunnel},
                                                  {"geneve", nic_kind::tunnel},
                                                  {"gre", nic_kind::tunnel},
                                                  {"ipip", nic_kind::tunnel},
                                                  {"sit", nic_kind::tunnel},
                                                  {"ppp", nic_kind::tunnel},
                                                  {"ipoib", nic_kind::infiniband_ip}}};

/// The value of a sysfs file, or -1 where it cannot be read ("speed" of an interface that is down).
std::int64_t read_number(const std::filesystem::path& file) {
  std::ifstream from(file);
  std::int64_t value = -1;
  return from >> value ? value : -1;
}

nic_kind kind_of(const kernel_link& one, bool wireless) {
  if ((one.flags & IFF_LOOPBACK) != 0) return nic_kind::loopback;
  if (wireless) return nic_kind::wireless;
  const auto* const known = std::find_if(drivers.begin(), drivers.end(),
                                         [&](const auto& d) { return d.first == one.driver; });
  if (known != drivers.end()) return known->second;
  if (one.type == ARPHRD_INFINIBAND) return nic_kind::infiniband_ip;
  if (one.driver.empty() && one.type == ARPHRD_ETHER) return nic_kind::ethernet;
  return (one.flags & IFF_POINTOPOINT) != 0 ? nic_kind::tunnel : nic_kind::other;
}

nic describe(const kernel_link& one) {
  nic found;
  found.name = one.name;
  found.index = one.index;
  found.up = (one.flags & IFF_UP) != 0;
  found.carrier = one.carrier;
  found.mac = one.mac;
  found.mtu = one.mtu;
  found.leaves_namespace = one.parent_outside;
  const std::filesystem::path folder = std::filesystem::path("/sys/class/net") / one.name;
  // A sysfs of another network namespace may have an interface of the same name.
  const bool ours = read_number(folder / "ifindex") == one.index;
  std::error_code none;
  found.kind = kind_of(one, ours && std::filesystem::exists(folder / "phy80211", none));
  if (!ours) return found;
  const std::int64_t speed = read_number(folder / "speed");
  // Drivers report an unknown speed as -1, signed or unsigned.
  if (speed > 0 && speed < 0x7fffffff) found.speed_mbit = speed;
  found.numa_node = static_cast<int>(read_number(folder / "device" / "numa_node"));
  return found;
}

/// True for a port, or an interface on top of one. Cycles end at a maximum depth.
bool on_hardware(const std::vector<nic>& all, const nic& one, int depth = 0) {
  if (one.kind == nic_kind::ethernet || one.kind == nic_kind::infiniband_ip) return true;
  const bool may_stand =
      one.kind == nic_kind::bond || one.kind == nic_kind::vlan || one.kind == nic_kind::bridge;
  if (!may_stand || depth > 4) return one.kind == nic_kind::wireless;
  return std::any_of(all.begin(), all.end(), [&](const nic& below) {
    return std::find(one.lower.begin(), one.lower.end(), below.name) != one.lower.end() &&
           on_hardware(all, below, depth + 1);
  });
}

void relate(const std::vector<kernel_link>& links, std::vector<nic>& all) {
  const auto by_index = [&all](int index) {
    return std::find_if(all.begin(), all.end(), [index](const nic& n) { return n.index == index; });
  };
  for (std::size_t i = 0; i < links.size(); ++i) {
    const kernel_link& one = links[i];
    if (const auto above = by_index(one.master); one.master != 0 && above != all.end()) {
      all[i].master = above->name;
      above->lower.push_back(one.name);
    }
    const auto below = by_index(one.parent);
    if (all[i].kind == nic_kind::vlan && !one.parent_outside && below != all.end()) {
      all[i].lower.push_back(below->name);
    }
  }
  for (nic& one : all) one.hardware = on_hardware(all, one);
}

template <std::size_t Size>
unsigned ones(const std::array<unsigned char, Size>& mask) {
  unsigned bits = 0;
  for (const unsigned char byte : mask) bits += static_cast<unsigned>(std::popcount(byte));
  return bits;
}

nic_address read_address(const ifaddrs& one) {
  nic_address found;
  if (one.ifa_addr->sa_family == AF_INET) {
    asio::ip::address_v4::bytes_type bytes{}, mask{};
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(one.ifa_addr)->sin_addr, 4);
    if (one.ifa_netmask != nullptr) {
      std::memcpy(mask.data(), &reinterpret_cast<const sockaddr_in*>(one.ifa_netmask)->sin_addr, 4);
    }
    found.where = asio::ip::address_v4(bytes);
    found.prefix = ones(mask);
    if (bytes[0] == 169 && bytes[1] == 254) found.unusable = "link-local";
    return found;
  }
  asio::ip::address_v6::bytes_type bytes{}, mask{};
  std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(one.ifa_addr)->sin6_addr, 16);
  if (one.ifa_netmask != nullptr) {
    std::memcpy(mask.data(), &reinterpret_cast<const sockaddr_in6*>(one.ifa_netmask)->sin6_addr,
                16);
  }
  const asio::ip::address_v6 where(bytes);
  found.where = where;
  found.prefix = ones(mask);
  if (where.is_link_local()) found.unusable = "link-local";
  return found;
}

void add_addresses(std::vector<nic>& all) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw boost::system::system_error(errno, boost::system::system_category(), "getifaddrs");
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    // An alias label ("eth0:1") is one more address of its interface.
    const std::string_view label(one->ifa_name);
    const std::string_view owner_name = label.substr(0, label.find(':'));
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const nic& n) { return n.name == owner_name; });
    if (found != all.end()) found->addresses.push_back(read_address(*one));
  }
}

}  // namespace

std::string_view name(nic_kind kind) noexcept {
  constexpr std::array<std::string_view, 10> names{
      "ethernet", "infiniband-ip", "wireless", "bond",     "vlan",
      "bridge",   "veth",          "tunnel",   "loopback", "other"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<nic> find_nics() {
  std::vector<kernel_link> links = find_links();
  std::sort(links.begin(), links.end(),
            [](const kernel_link& a, const kernel_link& b) { return a.index < b.index; });
  std::vector<nic> all;
  for (const kernel_link& one : links) all.push_back(describe(one));
  relate(links, all);
  add_addresses(all);
  return all;
}

bool in_subnet(const asio::ip::address& where, const asio::ip::address& network,
               unsigned prefix) noexcept {
  if (where.is_v4() != network.is_v4()) return false;
  const auto same = [prefix](const auto& a, const auto& b) {
    const std::size_t whole = std::min<std::size_t>(prefix / 8, a.size());
    if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), b.begin()))
      return false;
    if (whole == a.size() || prefix % 8 == 0) return true;
    return ((a[whole] ^ b[whole]) >> (8 - prefix % 8)) == 0;
  };
  if (where.is_v4()) return same(where.to_v4().to_bytes(), network.to_v4().to_bytes());
  return same(where.to_v6().to_bytes(), network.to_v6().to_bytes());
}

}  // namespace tandem::rails
