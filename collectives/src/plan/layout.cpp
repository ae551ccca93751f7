#include "plan/layout.hpp"

#include <algorithm>
#include <map>

namespace tandem::detail {

layout::layout(const std::vector<std::string>& host_of_rank) {
  std::map<std::string_view, int> numbers;
  for (const std::string& name : host_of_rank) {
    const auto [found, fresh] = numbers.emplace(name, hosts());
    if (fresh) members.emplace_back();
    std::vector<int>& here = members[static_cast<std::size_t>(found->second)];
    local_rank.push_back(static_cast<int>(here.size()));
    here.push_back(static_cast<int>(host.size()));
    host.push_back(found->second);
  }
}

bool layout::equal() const noexcept {
  return std::ranges::all_of(
      members, [this](const std::vector<int>& m) { return m.size() == members[0].size(); });
}

std::size_t layout::max_ranks_per_host() const noexcept {
  std::size_t most = 0;
  for (const std::vector<int>& here : members) most = std::max(most, here.size());
  return most;
}

std::vector<int> layout::in_order() const {
  std::vector<int> ranks;
  for (const std::vector<int>& here : members) ranks.insert(ranks.end(), here.begin(), here.end());
  return ranks;
}

}  // namespace tandem::detail
