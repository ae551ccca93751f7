#include "transports/rails/verbs/gid_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace tandem::verbs {
namespace {

std::string interface_of(const gid_requirement& requirement) {
  return requirement.interface.empty() ? fmt::format("interface {}", requirement.interface_index)
                                       : requirement.interface;
}

std::string list(const std::vector<asio::ip::address>& addresses) {
  std::string text;
  for (const asio::ip::address& one : addresses) {
    text += (text.empty() ? "" : " or ") + one.to_string();
  }
  return text;
}

bool is_link_local(const asio::ip::address& where) {
  if (where.is_v6()) return where.to_v6().is_link_local();
  return where.to_v4().to_uint() >> 16 == 0xa9fe;  // 169.254/16
}

/// The position of an address in the requirement; its size where it is not listed.
std::size_t address_position(const asio::ip::address& where, const gid_requirement& requirement) {
  const auto found = std::find(requirement.addresses.begin(), requirement.addresses.end(), where);
  return static_cast<std::size_t>(found - requirement.addresses.begin());
}

/// Why an entry of an Ethernet port cannot be used; empty: it can.
std::string why_unusable(const gid_entry& one, const gid_requirement& requirement) {
  if (is_empty(one.raw)) return "empty";
  if (one.kind == gid_kind::roce_v1) return "RoCE v1 is not routed; only v2 is used";
  if (one.kind != gid_kind::roce_v2) return "not RoCE v2";
  if (requirement.interface_index != 0 && one.interface_index != requirement.interface_index) {
    if (one.interface_index == 0) return "of no interface here (of another network namespace?)";
    return fmt::format("of interface {}, not {} ({})", one.interface_index,
                       interface_of(requirement), requirement.interface_index);
  }
  const asio::ip::address where = address_of(one.raw);
  if (is_link_local(where)) return "link-local";
  if (where.is_unspecified()) return "unspecified";
  if (where.is_multicast()) return "multicast";
  if (!requirement.addresses.empty() &&
      address_position(where, requirement) == requirement.addresses.size()) {
    return fmt::format("not an address that the rail uses ({})", list(requirement.addresses));
  }
  return {};
}

/// The sort key of an entry: the smallest is preferred.
auto preference(const gid_entry& one, const gid_requirement& requirement) {
  const asio::ip::address where = address_of(one.raw);
  return std::tuple(where.is_v6(), address_position(where, requirement), one.index);
}

std::string inactive(const port& of, const gid_requirement& requirement) {
  if (!of.ethernet) {
    return fmt::format(
        "{} is not active: check the cable, and that a subnet manager runs (opensm, or the "
        "switch's); ibstat shows the state",
        name(of));
  }
  return fmt::format("{} is not active: check the cable, and ip link set {} up", name(of),
                     requirement.interface.empty() ? "INTERFACE" : requirement.interface);
}

std::string none_usable(const port& of, const gid_requirement& requirement,
                        const gid_choice& so_far) {
  if (!of.ethernet) {
    return fmt::format("{} has no GID: a subnet manager must set it up (opensm, or the switch's)",
                       name(of));
  }
  std::string wanted = "RoCE v2";
  if (requirement.interface_index != 0) wanted += fmt::format(" of {}", interface_of(requirement));
  if (!requirement.addresses.empty())
    wanted += fmt::format(" with {}", list(requirement.addresses));
  std::string reasons;
  for (const std::string& one : so_far.left_out) reasons += (reasons.empty() ? "" : ", ") + one;
  return fmt::format(
      "{} has no GID that is {}: {}; ip address add gives an interface an address, "
      "show_gids or rdma link shows what is there",
      name(of), wanted, reasons.empty() ? "its table is empty" : reasons);
}

void leave_out(gid_choice& from, std::size_t& count, const gid_entry& one, std::string_view why) {
  if (++count <= max_gids_left_out) {
    from.left_out.push_back(fmt::format("{}: {}", describe(one), why));
  }
}

/// The subnet prefix: the first half of a GID, assigned by the subnet manager.
gid_bytes subnet_of(gid_bytes gid) {
  std::fill(gid.begin() + 8, gid.end(), std::byte{0});
  return gid;
}

gid_choice choose_infiniband(const port& of) {
  gid_choice found;
  std::size_t left_out = 0;
  for (const gid_entry& one : of.gids) {
    if (is_empty(one.raw)) {
      leave_out(found, left_out, one, "empty");
    } else if (found.chosen) {
      leave_out(found, left_out, one, "after the first that is set");
    } else {
      found.chosen = one;
    }
  }
  if (left_out > max_gids_left_out) {
    found.left_out.push_back(fmt::format("{} more", left_out - max_gids_left_out));
  }
  if (!found.chosen) {
    found.why = none_usable(of, {}, found);
    return found;
  }
  found.why = fmt::format("{}, subnet {}/64, LID {}", describe(*found.chosen),
                          address_of(subnet_of(found.chosen->raw)).to_string(), of.lid);
  return found;
}

}  // namespace

gid_choice choose_gid(const port& of, const gid_requirement& requirement) {
  if (!of.active) return {std::nullopt, inactive(of, requirement), {}};
  if (!of.ethernet) return choose_infiniband(of);
  gid_choice found;
  std::vector<gid_entry> fit;
  std::vector<std::string> reasons;
  for (const gid_entry& one : of.gids) {
    reasons.push_back(why_unusable(one, requirement));
    if (reasons.back().empty()) fit.push_back(one);
  }
  const auto best =
      std::min_element(fit.begin(), fit.end(), [&requirement](const auto& a, const auto& b) {
        return preference(a, requirement) < preference(b, requirement);
      });
  if (best != fit.end()) found.chosen = *best;
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < of.gids.size(); ++i) {
    if (found.chosen && of.gids[i].index == found.chosen->index) continue;
    leave_out(found, left_out, of.gids[i],
              reasons[i].empty() ? fmt::format("after GID {}", found.chosen->index) : reasons[i]);
  }
  if (left_out > max_gids_left_out) {
    found.left_out.push_back(fmt::format("{} more", left_out - max_gids_left_out));
  }
  found.why = found.chosen ? describe(*found.chosen) : none_usable(of, requirement, found);
  return found;
}

asio::ip::address address_of(const gid_bytes& gid) {
  asio::ip::address_v6::bytes_type bytes{};
  std::transform(gid.begin(), gid.end(), bytes.begin(),
                 [](std::byte b) { return static_cast<unsigned char>(b); });
  const asio::ip::address_v6 where(bytes);
  if (!where.is_v4_mapped()) return where;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, where);
}

bool is_empty(const gid_bytes& gid) noexcept {
  return std::all_of(gid.begin(), gid.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::string_view name(gid_kind kind) noexcept {
  if (kind == gid_kind::infiniband) return "InfiniBand";
  return kind == gid_kind::roce_v1 ? "RoCE v1" : "RoCE v2";
}

std::string name(const port& of) {
  return fmt::format("{} port {}", of.device, of.number);
}

std::string describe(const gid_entry& entry) {
  return fmt::format("GID {} ({}, {})", entry.index, name(entry.kind),
                     address_of(entry.raw).to_string());
}

}  // namespace tandem::verbs
