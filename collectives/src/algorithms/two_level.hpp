#pragma once

#include "algorithms/algorithms.hpp"
#include "communicator/levels.hpp"

/// Two-level algorithms, inside each host and across hosts: data crosses each host's link once, in
/// whatever order the ranks are numbered. Slices of the data are pipelined through the levels, so
/// that the slowest level is always busy. Hosts are those of the group's plan. A group on one host,
/// or with one rank on each, has one level: all_reduce is then the ring and broadcast the chain.
///
/// Slice k of S slices of E elements is [E k / S, E (k + 1) / S).
namespace tandem::detail {

/// With equally many ranks on each host, for every slice: reduce-scatter around a ring inside each
/// host, all-reduce of each segment around a ring across hosts, all-gather inside. So element i of
/// segment s = the hosts' results in the order of the ring across, each x_(s+1) op x_(s+2) ... op
/// x_s over the ranks of its host. With S slices and H hosts of R ranks: S times 2 (R - 1) L inside
/// and 2 (H - 1) L across; 2 (H - 1) / H T, with T of a host's link, and 2 (R - 1) / (R S) of the T
/// inside. Otherwise: up a chain in each host, x_0 op (x_1 op ...), around a ring of the first
/// ranks, and down the chains. Sources: the levels Karonis et al. 2000, Exploiting Hierarchy in
/// Parallel Computer Networks to Optimize Collective Operation Performance; the segments
/// BlueConnect (Cho et al. 2019).
/// @pre the group has two levels.
asio::awaitable<void> two_level_all_reduce(call& c, const_view from, mutable_view data, reducer by,
                                           std::size_t chunk_bytes);
/// Down a chain of one rank per host, and down a chain inside each host. T across, and T / S
/// inside.
asio::awaitable<void> two_level_broadcast(call& c, mutable_view data, int root,
                                          std::size_t chunk_bytes);
/// With equally many ranks on each host, for every slice of every block: around a ring of the ranks
/// with the same local rank in all hosts, then each host's blocks around the ring inside. With S
/// slices: S (H - 1) L across and S H (R - 1) L inside; (H - 1) / H T of a host's link, and
/// (R - 1) / (R S) of the T inside. Otherwise: a ring of all ranks, host by host.
/// @pre the group has two levels.
asio::awaitable<void> two_level_all_gather(call& c, const_view mine, mutable_view all, blocks cut,
                                           std::size_t chunk_bytes);
/// The same in reverse. Element i of the block of the rank with local rank p in host h = y_(h+1) op
/// y_(h+2) ... op y_h over the hosts, y of a host = x_(p+1) op x_(p+2) ... op x_p over its ranks.
/// Otherwise: a ring of all ranks, host by host, block r = x_(r+1) op ... op x_r in that order.
/// Scratch: the longest block, for each host.
asio::awaitable<void> two_level_reduce_scatter(call& c, const_view all, mutable_view mine,
                                               reducer by, blocks cut, std::size_t chunk_bytes);
constexpr auto inside_host = "inside the host";
constexpr auto across_hosts = "across hosts";

}  // namespace tandem::detail
