#pragma once

#include <map>
#include <memory>

#include "algorithms/algorithms.hpp"
#include "plan/layout.hpp"

/// Inside each host and across hosts: what crosses goes over each host's link once, however its
/// ranks are numbered. Slices of the data go through the levels one behind the other, so that the
/// slowest level is busy all the time. Hosts are those of the group's plan. A group on one host, or
/// with one rank on each, has one level: all_reduce is then the ring and broadcast the chain.
///
/// S slices cut the elements as ranks do a ring: slice k of E elements is [E k / S, E (k + 1) / S).
namespace tandem::detail {

/// The parts of a group that a level consists of, made by the first call that needs them and kept.
class levels {
 public:
  explicit levels(const group& whole);

  const layout& where() const noexcept { return where_; }
  /// The ranks of this rank's host, ascending.
  const std::shared_ptr<group>& within() const noexcept { return within_; }
  /// Of hosts with equally many ranks: those that have this rank's place in their hosts, by host.
  /// Else the first ranks of all hosts; null where this rank is none.
  const std::shared_ptr<group>& across() const noexcept { return across_; }
  /// The root, and the first ranks of all other hosts, by host; null where this rank is none.
  std::shared_ptr<group> heads(int root);
  /// Of every host, the rank that is a member of `across` there. @pre hosts are equal.
  const std::vector<int>& ranks_across() const noexcept { return ranks_across_; }
  /// All ranks, host by host.
  const std::shared_ptr<group>& in_order();

 private:
  std::shared_ptr<group> part(const std::vector<int>& ranks) const;

  const group& whole_;
  const layout where_;
  std::shared_ptr<group> within_;
  std::shared_ptr<group> across_;
  std::shared_ptr<group> in_order_;
  std::vector<int> ranks_across_;
  std::map<int, std::shared_ptr<group>> heads_;  // by root; -1 is any first rank
};

/// Equally many ranks on each host, of every slice: reduce-scatter around a ring inside each host,
/// all-reduce of each segment around a ring across hosts, all-gather inside. So element i of
/// segment s = the hosts' results in the order of the ring across, each x_(s+1) op x_(s+2) ... op
/// x_s over the ranks of its host. With S slices, H hosts of R ranks: S times 2 (R - 1) L inside
/// and 2 (H - 1) L across; 2 (H - 1) / H T, where T is of a host's link, and 2 (R - 1) / (R S) of
/// the T inside. Else: up a chain in each host, x_0 op (x_1 op ...), around a ring of the first
/// ranks, and down the chains. The levels are those of Karonis et al. 2000, Exploiting Hierarchy in
/// Parallel Computer Networks to Optimize Collective Operation Performance; the segments those of
/// BlueConnect (Cho et al. 2019).
/// @pre the group has two levels.
asio::awaitable<void> two_level_all_reduce(call& c, const_view from, mutable_view data, reducer by,
                                           std::size_t chunk_bytes);
/// Down a chain of one rank of each host, and down a chain in each host. T across, and T / S
/// inside.
asio::awaitable<void> two_level_broadcast(call& c, mutable_view data, int root,
                                          std::size_t chunk_bytes);
/// Equally many ranks on each host, of every slice of every block: around a ring of the ranks with
/// the same place in all hosts, then of each host's blocks around the ring inside. With S slices:
/// S (H - 1) L across and S H (R - 1) L inside; (H - 1) / H T of a host's link, and (R - 1) / (R S)
/// of the T inside. Else: a ring of all ranks, host by host.
/// @pre the group has two levels.
asio::awaitable<void> two_level_all_gather(call& c, const_view mine, mutable_view all, blocks cut,
                                           std::size_t chunk_bytes);
/// The same backwards. Element i of the block of the rank with place p in host h = y_(h+1) op
/// y_(h+2) ... op y_h over the hosts, y of a host = x_(p+1) op x_(p+2) ... op x_p over its ranks.
/// Else: a ring of all ranks, host by host, block r = x_(r+1) op ... op x_r in that order.
/// Scratch: for each host the longest block.
asio::awaitable<void> two_level_reduce_scatter(call& c, const_view all, mutable_view mine,
                                               reducer by, blocks cut, std::size_t chunk_bytes);
/// A call's part on a level, over the ranks of that level; levels count from 1.
lease level_of(const call& whole, std::shared_ptr<group> part, unsigned level, const char* name,
               std::size_t scratch_bytes);
constexpr auto inside_host = "inside the host";
constexpr auto across_hosts = "across hosts";

}  // namespace tandem::detail
