#pragma once

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <string>
#include <vector>

#include "transports/rails/nic/nic.hpp"
#include "transports/rails/verbs/gid_choice.hpp"
#include "transports/rails/verbs/ports.hpp"

/// RDMA ports and network interfaces that do not exist.
namespace tandem::verbs::fake {

inline asio::ip::address at(const std::string& text) {
  return asio::ip::make_address(text);
}

/// The GID of an address: "10.9.0.1" becomes ::ffff:10.9.0.1.
inline gid_bytes raw(const std::string& address) {
  const asio::ip::address where = at(address);
  const asio::ip::address_v6 wide =
      where.is_v4() ? asio::ip::make_address_v6(asio::ip::v4_mapped, where.to_v4()) : where.to_v6();
  gid_bytes bytes{};
  std::ranges::transform(wide.to_bytes(), bytes.begin(), [](auto b) { return std::byte{b}; });
  return bytes;
}

inline gid_entry gid(int index, const std::string& address, int interface_index,
                     gid_kind kind = gid_kind::roce_v2) {
  return {index, raw(address), kind, interface_index};
}

/// An active RoCE port, 100 Gbit/s.
inline port roce(const std::string& device, const std::vector<gid_entry>& gids) {
  port one;
  one.device = device;
  one.active = one.ethernet = true;
  one.mtu_bytes = 4096;
  one.max_message_bytes = 8 << 20;
  one.speed_mbit = 100'000;
  one.gids = gids;
  return one;
}

/// An active InfiniBand port, LID 7.
inline port infiniband(const std::string& device, const std::vector<std::string>& gids) {
  port one = roce(device, {});
  one.ethernet = false;
  one.lid = 7;
  for (const std::string& text : gids) {
    const int index = static_cast<int>(one.gids.size());
    one.gids.push_back(gid(index, text, 0, gid_kind::infiniband));
  }
  return one;
}

inline rails::nic nic(const std::string& name, int index,
                      const std::vector<std::string>& addresses) {
  rails::nic one;
  one.name = name;
  one.index = index;
  one.up = one.carrier = one.hardware = true;
  one.kind = rails::nic_kind::ethernet;
  for (const std::string& text : addresses) {
    one.addresses.push_back({at(text), 24, text.starts_with("fe80") ? "link-local" : ""});
  }
  return one;
}

}  // namespace tandem::verbs::fake
