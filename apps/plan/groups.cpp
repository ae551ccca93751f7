#include <fmt/format.h>

#include <algorithm>
#include <tandem/channels.hpp>
#include <tandem/detail/crc32c.hpp>

#include "plan/plan.hpp"

namespace tandem::planner {
namespace {

constexpr std::size_t max_groups = 64;

/// The transport that the fabric of ranks on such hosts would report.
std::string assumed_path(const plan_options& o, int from, int to) {
  const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
  const bool is_one_host = o.assumed.host_of_rank[a] == o.assumed.host_of_rank[b];
  const devices::pair_capabilities both{.peer_copies = is_one_host && o.engine.peer_copies,
                                        .shared_staging = is_one_host && o.engine.shared_staging};
  const path_facts& path = is_one_host ? o.assumed.within : o.assumed.across;
  return devices::expected_transport(o.ranks[a].kind, o.ranks[b].kind, both, path.channel);
}

}  // namespace

std::vector<group_choice> assumed_groups(const plan_options& o) {
  const transport_between way = [&o](int from, int to) { return assumed_path(o, from, to); };
  std::vector<group_choice> all;
  for (std::size_t i = 0; i < o.members.size(); ++i) {
    all.push_back(choose_backends({"group", {o.members[i]}}, o.ranks, way).front());
    all.back().number = i;
  }
  if (!o.layout) return all;
  for (std::size_t i = 0; i < o.layout->dimensions().size(); ++i) {
    for (group_choice& each : choose_backends(o.layout->groups(i), o.ranks, way)) {
      all.push_back(std::move(each));
    }
  }
  return all;
}

std::string groups_table(const std::vector<group_choice>& agreed, const std::string& title,
                         const facts& known) {
  struct row {
    std::string group, ranks, by;
  };
  const std::size_t shown = std::min(agreed.size(), max_groups);
  std::vector<row> rows{{"group", "ranks", "carried by"}};
  std::size_t widths[3] = {0, 0, 0};
  for (std::size_t i = 0; i < shown; ++i) {
    const group_choice& one = agreed[i];
    rows.push_back({fmt::format("{} {}", one.name, one.number), ranks_text(one.ranks), one.by});
  }
  for (const row& each : rows) {
    widths[0] = std::max(widths[0], each.group.size());
    widths[1] = std::max(widths[1], each.ranks.size());
    widths[2] = std::max(widths[2], each.by.size());
  }
  const std::string all = text_of(agreed);
  std::string text = fmt::format("groups {:08x}: {}\n{}\n", crc32c(all.data(), all.size()), title,
                                 hosts_text(known));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const row& one = rows[i];
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", one.group, widths[0], one.ranks, widths[1],
                        one.by, widths[2], i == 0 ? "why" : agreed[i - 1].why);
  }
  if (agreed.size() > shown) text += fmt::format("and {} more groups\n", agreed.size() - shown);
  return text;
}

}  // namespace tandem::planner
