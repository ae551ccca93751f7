#include <fmt/format.h>

#include <algorithm>

#include "transports/rails/nic/candidate.hpp"

namespace tandem::rails {
namespace {

constexpr auto name_it = "name it in TANDEM_RAILS to use it";
constexpr std::int64_t max_speed_ratio = 4;

/// Preference of an interface that is not listed; 0: never selected by default.
enum level : int { never = 0, loopback = 1, tunnel = 2, outward = 3, wireless = 4, port = 5 };

level level_of(const nic& interface) {
  if (interface.kind == nic_kind::loopback) return loopback;
  if (interface.kind == nic_kind::wireless) return wireless;
  if (interface.kind == nic_kind::tunnel) return tunnel;
  if (interface.hardware) return port;
  const bool pair = interface.kind == nic_kind::veth || interface.kind == nic_kind::vlan;
  return pair && interface.leaves_namespace ? outward : never;
}

using candidates = std::vector<candidate>;

/// The level and family of the interfaces that become rails.
struct choice {
  level best = never;
  bool infiniband = false;

  bool has(const nic& interface) const {
    if (best == never || level_of(interface) != best) return false;
    return best != port || (interface.kind == nic_kind::infiniband_ip) == infiniband;
  }
};

/// The number of eligible interfaces of a choice, and the fastest of them; -1: no speed is known.
struct strength {
  std::size_t count = 0;
  std::int64_t fastest_mbit = -1;
};

strength measure(const candidates& all, const choice& which) {
  strength found;
  for (const candidate& c : all) {
    if (!c.rejection.empty() || !which.has(*c.interface)) continue;
    ++found.count;
    found.fastest_mbit = std::max(found.fastest_mbit, c.interface->speed_mbit);
  }
  return found;
}

choice choose_among(const candidates& all) {
  choice found;
  for (const candidate& c : all) {
    if (c.rejection.empty()) found.best = std::max(found.best, level_of(*c.interface));
  }
  const strength ethernet = measure(all, {port, false}), infiniband = measure(all, {port, true});
  found.infiniband = infiniband.count != 0 &&
                     (ethernet.count == 0 || infiniband.fastest_mbit > ethernet.fastest_mbit);
  return found;
}

void leave_out_others(candidates& all, const choice& chosen) {
  const std::size_t kept = measure(all, chosen).count;
  std::string what;
  for (const candidate& c : all) {
    if (c.rejection.empty() && chosen.has(*c.interface)) what = kind_text(*c.interface);
  }
  if (chosen.best == port) what = chosen.infiniband ? "infiniband-ip" : "ethernet";
  for (candidate& c : all) {
    if (!c.rejection.empty() || chosen.has(*c.interface)) continue;
    if (level_of(*c.interface) == never) {
      c.rejection = fmt::format("{}; {}", kind_text(*c.interface), name_it);
      continue;
    }
    const std::string speed =
        c.interface->speed_mbit > 0 ? fmt::format("{} Mbit/s ", c.interface->speed_mbit) : "";
    c.rejection = fmt::format("{}{}; {} {} rail{} preferred", speed, kind_text(*c.interface), kept,
                              what, kept == 1 ? "" : "s");
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A vlan would share the bandwidth of its own port, or of another vlan on that port.
void leave_out_shared_ports(candidates& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size() && all[i].rejection.empty(); ++j) {
      const nic &interface = *all[i].interface, &other = *all[j].interface;
      if (i == j || !all[j].rejection.empty()) continue;
      const bool siblings = j < i && std::any_of(interface.lower.begin(), interface.lower.end(),
                                                 [&other](const auto& below) {
                                                   return contains(other.lower, below);
                                                 });
      if (!siblings && !contains(interface.lower, other.name)) continue;
      all[i].rejection = fmt::format("shares the port of {}; {}", other.name, name_it);
    }
  }
}

void leave_out_the_slow(candidates& all, const choice& chosen) {
  const std::int64_t max_mbit = measure(all, chosen).fastest_mbit;
  for (candidate& c : all) {
    const std::int64_t speed = c.interface->speed_mbit;
    if (!c.rejection.empty() || speed <= 0 || speed >= max_mbit / max_speed_ratio) continue;
    c.rejection = fmt::format("{} Mbit/s, others {} Mbit/s; {}", speed, max_mbit, name_it);
  }
}

}  // namespace

std::string kind_text(const nic& interface) {
  if (interface.kind == nic_kind::veth) {
    return interface.leaves_namespace ? "veth" : "veth pair of this machine";
  }
  return interface.kind == nic_kind::other ? "virtual interface"
                                           : std::string(name(interface.kind));
}

void keep_most_capable(std::vector<candidate>& all) {
  const choice chosen = choose_among(all);
  leave_out_others(all, chosen);
  leave_out_shared_ports(all);
  leave_out_the_slow(all, chosen);
}

}  // namespace tandem::rails
