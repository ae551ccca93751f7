#include "rails/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/text.hpp"

namespace tandem::rails {
namespace {

std::string speed_text(std::int64_t mbit) {
  if (mbit < 0) return "-";
  return mbit >= 1000 && mbit % 1000 == 0 ? fmt::format("{} Gbit/s", mbit / 1000)
                                          : fmt::format("{} Mbit/s", mbit);
}

/// The reason why no interface has RDMA, if it is the same for all; else empty.
std::string common_rdma_reason(const std::vector<rail_choice>& choices) {
  if (choices.empty()) return {};
  const std::string& reason = choices.front().rdma_reason;
  const bool same = std::all_of(choices.begin(), choices.end(), [&](const rail_choice& one) {
    return one.rdma.empty() && one.rdma_reason == reason;
  });
  return same ? reason : std::string();
}

/// The lines about RDMA on one interface. The reason for its absence is given for rails only.
std::vector<std::string> rdma_lines(const rail_choice& one) {
  std::vector<std::string> lines;
  if (one.rdma.empty()) {
    if (one.chosen) lines.push_back("no RDMA: " + one.rdma_reason);
    return lines;
  }
  lines.push_back("RDMA: " + one.rdma);
  if (!one.rdma_can.empty()) {
    lines.push_back(fmt::format("  supports: {}", fmt::join(one.rdma_can, "; ")));
  }
  for (const std::string& no : one.rdma_cannot) lines.push_back("  " + no);
  return lines;
}

std::string list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& one : words) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", cli::json_text(one));
  }
  return text;
}

}  // namespace

std::string table(const std::vector<rail_choice>& choices) {
  const std::string none = common_rdma_reason(choices);
  std::size_t name = 9, address = 9;
  for (const rail_choice& one : choices) {
    name = std::max(name, one.interface.size());
    for (const std::string& a : one.addresses) address = std::max(address, a.size());
  }
  std::string text = fmt::format("{:<{}}  {:<13}  {:<10}  {:<{}}  {}\n", "interface", name, "kind",
                                 "speed", "addresses", address, "decision");
  for (const rail_choice& one : choices) {
    const std::string first = one.addresses.empty() ? "-" : one.addresses.front();
    text += fmt::format("{:<{}}  {:<13}  {:<10}  {:<{}}  {}\n", one.interface, name, one.kind,
                        speed_text(one.speed_mbit), first, address, one.reason);
    const auto rdma = none.empty() ? rdma_lines(one) : std::vector<std::string>();
    for (std::size_t i = 1; i < one.addresses.size() || i <= rdma.size(); ++i) {
      const std::string more = i < one.addresses.size() ? one.addresses[i] : std::string();
      text += i > rdma.size()
                  ? fmt::format("{:{}}{}\n", "", name + 29, more)
                  : fmt::format("{:{}}{:<{}}  {}\n", "", name + 29, more, address, rdma[i - 1]);
    }
  }
  return none.empty() ? text : text + none + "\n";
}

std::string json(const rail_choice& one) {
  return fmt::format(
      R"({{"interface": {}, "kind": {}, "speed_mbit": {}, "numa_node": {}, "mtu": {}, "mac": {}, )"
      R"("addresses": [{}], "up": {}, "chosen": {}, "reason": {}, "rdma": {}, )"
      R"("rdma_reason": {}, "rdma_left_out": [{}], "rdma_can": [{}], "rdma_cannot": [{}]}})",
      cli::json_text(one.interface), cli::json_text(one.kind), one.speed_mbit, one.numa_node,
      one.mtu, cli::json_text(one.mac), list(one.addresses), one.up, one.chosen,
      cli::json_text(one.reason), cli::json_text(one.rdma), cli::json_text(one.rdma_reason),
      list(one.rdma_left_out), list(one.rdma_can), list(one.rdma_cannot));
}

}  // namespace tandem::rails
