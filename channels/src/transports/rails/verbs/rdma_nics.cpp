#include "transports/rails/verbs/rdma_nics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tandem/error.hpp>
#include <tuple>
#include <utility>

namespace tandem::verbs {
namespace {

constexpr std::size_t max_ports_named = 4;

/// The last eight bytes of a GID as hardware addresses are written: "00:02:c9:03:00:ab:cd:ef".
std::string port_guid(const gid_bytes& gid) {
  std::string text;
  for (std::size_t i = 8; i < gid.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 8 ? "" : ":", static_cast<unsigned>(gid[i]));
  }
  return text;
}

bool is_on_interface(const port& one, const rails::nic& on) {
  constexpr std::size_t letters = 20 * 3 - 1;  // of IP over InfiniBand: queue pair, then the GID
  return std::any_of(one.gids.begin(), one.gids.end(), [&](const gid_entry& gid) {
    if (one.ethernet) return on.index != 0 && gid.interface_index == on.index;
    return !is_empty(gid.raw) && on.mac.size() == letters && on.mac.ends_with(port_guid(gid.raw));
  });
}

gid_requirement requirement_of(const rails::nic& on,
                               const std::vector<rails::nic_address>& addresses) {
  gid_requirement requirement{on.name, on.index, {}};
  for (const rails::nic_address& a : addresses.empty() ? on.addresses : addresses) {
    if (a.unusable.empty()) requirement.addresses.push_back(a.where);
  }
  return requirement;
}

rdma_end end_of(const port& on, const gid_choice& gid) {
  rdma_end found;
  found.device = on.device;
  found.port = on.number;
  found.ethernet = on.ethernet;
  found.gid_index = gid.chosen->index;
  found.gid = gid.chosen->raw;
  found.lid = on.lid;
  found.mtu_bytes = on.mtu_bytes;
  found.max_message_bytes = on.max_message_bytes;
  found.speed_mbit = on.speed_mbit;
  found.numa_node = on.numa_node;
  found.limits = on.limits;
  found.why = fmt::format("{}, {}", name(on), gid.why);
  return found;
}

std::string no_device_on(const rails::nic& on, const std::vector<port>& ports) {
  std::string others;
  for (std::size_t i = 0; i < ports.size() && i < max_ports_named; ++i) {
    others += (others.empty() ? "" : ", ") + name(ports[i]);
  }
  if (ports.size() > max_ports_named) {
    others += fmt::format(" and {} more", ports.size() - max_ports_named);
  }
  return fmt::format("no RDMA device on {}{}", on.name,
                     others.empty() ? "" : fmt::format(" (elsewhere: {})", others));
}

}  // namespace

rdma_choice choose_rdma(const std::vector<port>& ports, const rails::nic& on,
                        const std::vector<rails::nic_address>& addresses) {
  const gid_requirement requirement = requirement_of(on, addresses);
  std::vector<std::pair<const port*, gid_choice>> there;
  for (const port& one : ports) {
    if (is_on_interface(one, on)) there.emplace_back(&one, choose_gid(one, requirement));
  }
  if (there.empty()) return {std::nullopt, no_device_on(on, ports), {}};
  const auto preference = [](const auto& c) {
    return std::tuple(!c.second.chosen, !c.first->active, -c.first->speed_mbit,
                      std::string_view(c.first->device), c.first->number);
  };
  std::stable_sort(there.begin(), there.end(), [&preference](const auto& a, const auto& b) {
    return preference(a) < preference(b);
  });
  rdma_choice found;
  const auto& [best, gid] = there.front();
  found.left_out = gid.left_out;
  for (std::size_t i = 1; i < there.size() && i <= max_ports_named; ++i) {
    const auto& [other, other_gid] = there[i];
    found.left_out.push_back(
        other_gid.chosen ? fmt::format("{}: {} is on {} too", name(*other), name(*best), on.name)
                         : other_gid.why);
  }
  found.why = gid.why;
  if (!gid.chosen) return found;
  found.end = end_of(*best, gid);
  found.why = found.end->why;
  return found;
}

std::vector<rdma_choice> choose_rdma(const std::vector<port>& ports,
                                     const std::vector<rails::nic>& nics,
                                     const std::vector<rails::rail_end>& rails) {
  std::vector<rdma_choice> all;
  for (const rails::rail_end& one : rails) {
    all.push_back(choose_rdma(ports, nics[one.nic], one.addresses));
  }
  return all;
}

void require_rdma(rdma_use asked, const std::vector<rails::nic>& nics,
                  const std::vector<rails::rail_end>& rails,
                  const std::vector<rdma_choice>& chosen) {
  if (asked != rdma_use::on) return;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i].end) continue;
    throw error(
        errc::bad_option,
        fmt::format("rdma on: no RDMA on rail {}: {}", nics[rails[i].nic].name, chosen[i].why),
        "name other rails in TANDEM_RAILS, or use --rdma auto");
  }
}

}  // namespace tandem::verbs
