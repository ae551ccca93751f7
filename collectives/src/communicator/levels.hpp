#pragma once

#include <map>
#include <memory>
#include <vector>

#include "communicator/call.hpp"
#include "plan/layout.hpp"

namespace tandem::detail {

/// The subgroups of a group that form its levels, made on first use and kept.
class levels {
 public:
  explicit levels(const group& parent);

  const layout& where() const noexcept { return where_; }
  /// The ranks of this rank's host, ascending.
  const std::shared_ptr<group>& within() const noexcept { return within_; }
  /// If all hosts have equally many ranks: the ranks with this rank's local rank, by host.
  /// Otherwise the first rank of each host; null if this rank is not one of them.
  const std::shared_ptr<group>& across() const noexcept { return across_; }
  /// The root and the first ranks of all other hosts, by host; null if this rank is not one of
  /// them.
  std::shared_ptr<group> leaders(int root);
  /// By host: the rank that is a member of `across`. @pre all hosts have equally many ranks.
  const std::vector<int>& ranks_across() const noexcept { return ranks_across_; }
  /// All ranks, host by host.
  const std::shared_ptr<group>& in_order();

 private:
  std::shared_ptr<group> part(const std::vector<int>& ranks) const;

  const group& parent_;
  const layout where_;
  std::shared_ptr<group> within_;
  std::shared_ptr<group> across_;
  std::shared_ptr<group> in_order_;
  std::vector<int> ranks_across_;
  std::map<int, std::shared_ptr<group>> leaders_;  // by root; -1: any root that is a first rank
};

/// Takes a call from the pool of `part` as level `level` of `parent`; levels count from 1.
lease acquire_level(const call& parent, std::shared_ptr<group> part, unsigned level,
                    const char* name, std::size_t scratch_bytes);

}  // namespace tandem::detail
