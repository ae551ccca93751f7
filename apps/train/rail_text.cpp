#include "rail_text.hpp"

#include <fmt/format.h>

namespace tandem::train {
namespace {

/// "up", "lost", "1/2 up" where the rails of the NIC differ.
std::string state_text(const nic_now& nic) {
  if (nic.up == nic.lanes || nic.lanes == 1) return std::string(name(nic.worst));
  if (nic.up == 0) return std::string(name(nic.worst));
  return fmt::format("{}/{} up", nic.up, nic.lanes);
}

bool is_up(const nic_now& nic) {
  return nic.up == nic.lanes;
}

std::string each(const std::vector<nic_now>& nics, bool say_up) {
  std::string text;
  for (const nic_now& one : nics) {
    text += fmt::format("{}{}", text.empty() ? "" : "  ", one.nic);
    if (say_up || !is_up(one)) text += " " + state_text(one);
    const bool is_lost = one.up == 0 && one.worst == rail_state::lost;
    if (!is_lost) text += " " + rate_text(one.bytes_per_s);
  }
  return text;
}

}  // namespace

std::string rate_text(double bytes_per_s) {
  return bytes_text(bytes_per_s) + "/s";
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e13) return fmt::format("{:.0f} TB", bytes / 1e12);
  if (bytes >= 1e12) return fmt::format("{:.1f} TB", bytes / 1e12);
  if (bytes >= 1e10) return fmt::format("{:.0f} GB", bytes / 1e9);
  if (bytes >= 1e9) return fmt::format("{:.1f} GB", bytes / 1e9);
  if (bytes >= 1e7) return fmt::format("{:.0f} MB", bytes / 1e6);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.0f} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

std::vector<std::string> rail_texts(const std::vector<nic_now>& nics) {
  if (nics.empty()) return {};
  std::size_t up = 0;
  double bytes_per_s = 0;
  std::string others;
  for (const nic_now& one : nics) {
    bytes_per_s += one.bytes_per_s;
    if (is_up(one)) {
      ++up;
    } else {
      others += fmt::format(", {} {}", one.nic, state_text(one));
    }
  }
  const std::string rate = rate_text(bytes_per_s);
  return {each(nics, true), each(nics, false),
          fmt::format("{} of {} NICs up {}{}", up, nics.size(), rate, others),
          fmt::format("{}/{} up {}", up, nics.size(), rate)};
}

}  // namespace tandem::train
