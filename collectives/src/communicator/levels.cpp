#include "communicator/levels.hpp"

#include <algorithm>
#include <utility>

namespace tandem::detail {

levels::levels(const group& parent)
    : parent_(parent), where_(parent.agreed().known().host_of_rank) {
  const auto me = static_cast<std::size_t>(parent.rank());
  within_ = part(where_.members[static_cast<std::size_t>(where_.host[me])]);
  const int local_rank = where_.equal() ? where_.local_rank[me] : 0;
  for (const std::vector<int>& here : where_.members) {
    ranks_across_.push_back(here[static_cast<std::size_t>(local_rank)]);
  }
  if (local_rank == where_.local_rank[me]) across_ = part(ranks_across_);
}

const std::shared_ptr<group>& levels::in_order() {
  if (!in_order_) in_order_ = part(where_.in_order());
  return in_order_;
}

std::shared_ptr<group> levels::part(const std::vector<int>& ranks) const {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(parent_.member(rank));
  // Its messages use flows of the parent group's calls, so it needs no id of its own.
  return std::make_shared<group>(parent_.over(), parent_.options(), std::move(members), 0);
}

std::shared_ptr<group> levels::leaders(int root) {
  const auto host = static_cast<std::size_t>(where_.host[static_cast<std::size_t>(root)]);
  std::vector<int> ranks;
  for (const std::vector<int>& here : where_.members) ranks.push_back(here[0]);
  const bool is_first = ranks[host] == root;
  ranks[host] = root;
  if (std::ranges::find(ranks, parent_.rank()) == ranks.end()) return nullptr;
  std::shared_ptr<group>& found = leaders_[is_first ? -1 : root];
  if (!found) found = part(ranks);
  return found;
}

lease acquire_level(const call& parent, std::shared_ptr<group> part, unsigned level,
                    const char* name, std::size_t scratch_bytes) {
  lease slot(std::move(part), name, scratch_bytes, parent.queue());
  slot->make_level_of(parent, level);
  return slot;
}

}  // namespace tandem::detail
