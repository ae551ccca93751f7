#include "rails/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/json_text.hpp"

namespace tandem::rails {
namespace {

std::string speed_text(std::int64_t mbit) {
  if (mbit < 0) return "-";
  return mbit >= 1000 && mbit % 1000 == 0 ? fmt::format("{} Gbit/s", mbit / 1000)
                                          : fmt::format("{} Mbit/s", mbit);
}

}  // namespace

std::string table(const std::vector<rail_choice>& choices) {
  std::size_t name = 9, address = 9;
  for (const rail_choice& one : choices) {
    name = std::max(name, one.interface.size());
    for (const std::string& a : one.addresses) address = std::max(address, a.size());
  }
  std::string text = fmt::format("{:<{}}  {:<13}  {:<10}  {:<{}}  {}\n", "interface", name, "kind",
                                 "speed", "addresses", address, "verdict");
  for (const rail_choice& one : choices) {
    const std::string first = one.addresses.empty() ? "-" : one.addresses.front();
    text += fmt::format("{:<{}}  {:<13}  {:<10}  {:<{}}  {}\n", one.interface, name, one.kind,
                        speed_text(one.speed_mbit), first, address, one.reason);
    for (std::size_t i = 1; i < one.addresses.size(); ++i) {
      text += fmt::format("{:{}}{}\n", "", name + 29, one.addresses[i]);
    }
  }
  return text;
}

std::string json(const rail_choice& one) {
  std::string addresses;
  for (const std::string& a : one.addresses) {
    addresses += fmt::format("{}{}", addresses.empty() ? "" : ", ", cli::json_text(a));
  }
  return fmt::format(
      R"({{"interface": {}, "kind": {}, "speed_mbit": {}, "numa_node": {}, "mtu": {}, "mac": {}, )"
      R"("addresses": [{}], "up": {}, "chosen": {}, "reason": {}}})",
      cli::json_text(one.interface), cli::json_text(one.kind), one.speed_mbit, one.numa_node,
      one.mtu, cli::json_text(one.mac), addresses, one.up, one.chosen, cli::json_text(one.reason));
}

}  // namespace tandem::rails
