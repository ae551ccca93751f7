#include <fmt/format.h>

#include "rail_log.hpp"

namespace tandem::train {
namespace {

/// "up", "lost", "1/2 up" where the rails of the NIC differ.
std::string state_text(const nic_status& nic) {
  if (nic.up == nic.lanes || nic.lanes == 1) return std::string(name(nic.worst));
  if (nic.up == 0) return std::string(name(nic.worst));
  return fmt::format("{}/{} up", nic.up, nic.lanes);
}

bool is_up(const nic_status& nic) {
  return nic.up == nic.lanes;
}

std::string nic_texts(const std::vector<nic_status>& nics, bool show_up) {
  std::string text;
  for (const nic_status& nic : nics) {
    text += fmt::format("{}{}", text.empty() ? "" : "  ", nic.nic);
    if (show_up || !is_up(nic)) text += " " + state_text(nic);
    const bool is_lost = nic.up == 0 && nic.worst == rail_state::lost;
    if (!is_lost) text += " " + rate_text(nic.bytes_per_s);
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

std::vector<std::string> rail_texts(const std::vector<nic_status>& nics) {
  if (nics.empty()) return {};
  std::size_t up = 0;
  double bytes_per_s = 0;
  std::string others;
  for (const nic_status& nic : nics) {
    bytes_per_s += nic.bytes_per_s;
    if (is_up(nic)) {
      ++up;
    } else {
      others += fmt::format(", {} {}", nic.nic, state_text(nic));
    }
  }
  const std::string rate = rate_text(bytes_per_s);
  return {nic_texts(nics, true), nic_texts(nics, false),
          fmt::format("{} of {} NICs up {}{}", up, nics.size(), rate, others),
          fmt::format("{}/{} up {}", up, nics.size(), rate)};
}

}  // namespace tandem::train
