#include <fmt/format.h>

#include <algorithm>

#include "rails/candidate.hpp"

namespace tandem::rails {
namespace {

constexpr auto name_it = "name it in TANDEM_RAILS to use it";
constexpr std::int64_t slowest_share = 4;

/// Preference of an interface that is not listed; 0: never selected by default.
enum level : int { never = 0, loopback = 1, tunnel = 2, outward = 3, wireless = 4, port = 5 };

level level_of(const nic& one) {
  if (one.kind == nic_kind::loopback) return loopback;
  if (one.kind == nic_kind::wireless) return wireless;
  if (one.kind == nic_kind::tunnel) return tunnel;
  if (one.hardware) return port;
  const bool pair = one.kind == nic_kind::veth || one.kind == nic_kind::vlan;
  return pair && one.leaves_namespace ? outward : never;
}

using candidates = std::vector<candidate>;

/// The level and family of the interfaces that become rails.
struct choice {
  level best = never;
  bool infiniband = false;

  bool has(const nic& one) const {
    if (best == never || level_of(one) != best) return false;
    return best != port || (one.kind == nic_kind::infiniband_ip) == infiniband;
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
    if (!c.out.empty() || !which.has(*c.one)) continue;
    ++found.count;
    found.fastest_mbit = std::max(found.fastest_mbit, c.one->speed_mbit);
  }
  return found;
}

choice choose_among(const candidates& all) {
  choice found;
  for (const candidate& c : all) {
    if (c.out.empty()) found.best = std::max(found.best, level_of(*c.one));
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
    if (c.out.empty() && chosen.has(*c.one)) what = word_for(*c.one);
  }
  if (chosen.best == port) what = chosen.infiniband ? "infiniband-ip" : "ethernet";
  for (candidate& c : all) {
    if (!c.out.empty() || chosen.has(*c.one)) continue;
    if (level_of(*c.one) == never) {
      c.out = fmt::format("{}; {}", word_for(*c.one), name_it);
      continue;
    }
    const std::string speed =
        c.one->speed_mbit > 0 ? fmt::format("{} Mbit/s ", c.one->speed_mbit) : "";
    c.out = fmt::format("{}{}; {} {} rail{} preferred", speed, word_for(*c.one), kept, what,
                        kept == 1 ? "" : "s");
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A vlan would share the bandwidth of its own port, or of another vlan on that port.
void leave_out_riders(candidates& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size() && all[i].out.empty(); ++j) {
      const nic &one = *all[i].one, &other = *all[j].one;
      if (i == j || !all[j].out.empty()) continue;
      const bool siblings =
          j < i && std::any_of(one.lower.begin(), one.lower.end(), [&other](const auto& below) {
            return contains(other.lower, below);
          });
      if (!siblings && !contains(one.lower, other.name)) continue;
      all[i].out = fmt::format("shares the port of {}; {}", other.name, name_it);
    }
  }
}

void leave_out_the_slow(candidates& all, const choice& chosen) {
  const std::int64_t most = measure(all, chosen).fastest_mbit;
  for (candidate& c : all) {
    const std::int64_t speed = c.one->speed_mbit;
    if (!c.out.empty() || speed <= 0 || speed >= most / slowest_share) continue;
    c.out = fmt::format("{} Mbit/s, others {} Mbit/s; {}", speed, most, name_it);
  }
}

}  // namespace

std::string word_for(const nic& one) {
  if (one.kind == nic_kind::veth) {
    return one.leaves_namespace ? "veth" : "veth pair of this machine";
  }
  return one.kind == nic_kind::other ? "virtual interface" : std::string(name(one.kind));
}

void keep_the_most_capable(std::vector<candidate>& all) {
  const choice chosen = choose_among(all);
  leave_out_others(all, chosen);
  leave_out_riders(all);
  leave_out_the_slow(all, chosen);
}

}  // namespace tandem::rails
