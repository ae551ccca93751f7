#pragma once

#include <map>
#include <memory>
#include <utility>

#include "algorithms/algorithms.hpp"
#include "plan/layout.hpp"

/// Inside each host, then across hosts: what crosses goes over each host's link once, however its
/// ranks are numbered. Hosts are those of the group's plan. A group on one host, or with one rank
/// on each, has one level: all_reduce is then the ring and broadcast the chain.
namespace tandem::detail {

/// The parts of a group that a level consists of, made by the first call that needs them and kept.
/// Their messages are those of the group's call: two ranks share a host or they do not, so no two
/// parts share a pair of ranks.
class levels {
 public:
  explicit levels(const group& whole);

  const layout& where() const noexcept { return where_; }
  /// The ranks of this rank's host, ascending.
  group& within() noexcept { return *within_; }
  /// Of hosts with equally many ranks: those that have this rank's place in their hosts, by host.
  /// Else the first ranks of all hosts; empty where this rank is none.
  group* across() noexcept { return across_.get(); }
  /// The root, and the first ranks of all other hosts, by host; empty where this rank is none.
  group* heads(int root);

 private:
  std::unique_ptr<group> part(const std::vector<int>& ranks) const;

  const group& whole_;
  const layout where_;
  std::unique_ptr<group> within_;
  std::unique_ptr<group> across_;
  std::map<int, std::unique_ptr<group>> heads_;  // by root, where it is no first rank
};

/// Equally many ranks on each host: reduce-scatter around a ring inside each host, all-reduce of
/// each segment around a ring across hosts, all-gather inside. So element i of segment s = the
/// hosts' results in the order of the ring across, each x_(s+1) op x_(s+2) ... op x_s over the
/// ranks of its host. With H hosts of R ranks 2 (R - 1) L inside and 2 (H - 1) L across; 2 (R - 1)
/// / R T inside and 2 (H - 1) / H T across, where T is of a host's link. Else: up a chain in each
/// host, x_0 op (x_1 op ...), around a ring of the first ranks, and down the chains. The scheme is
/// that of Karonis et al. 2000, Exploiting Hierarchy in Parallel Computer Networks to Optimize
/// Collective Operation Performance; with segments as in BlueConnect (Cho et al. 2019). Scratch:
/// `two_level_scratch`.
asio::awaitable<void> two_level_all_reduce(call& c, const_view from, mutable_view data, reducer by,
                                           std::size_t chunk_bytes);
std::size_t two_level_scratch(group& in, std::size_t bytes, const reducer& by,
                              std::size_t chunk_bytes);
/// Down a chain of one rank of each host, then down a chain in each host. T across, and T inside.
asio::awaitable<void> two_level_broadcast(call& c, mutable_view data, int root,
                                          std::size_t chunk_bytes);

}  // namespace tandem::detail
