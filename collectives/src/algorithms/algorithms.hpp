#pragma once

#include <tandem/collectives.hpp>

#include "algorithms/ring.hpp"
#include "communicator/call.hpp"
#include "partition/blocks.hpp"
#include "reduce/reducer.hpp"

/// The algorithms. x_r is the contribution of rank r, n the number of ranks, B the bytes of the
/// longest view, L the time of a short message, T the time to transfer B bytes over a link; costs
/// do not include combining. Each rank of a group runs the same algorithm; the caller has checked
/// the arguments and reserved the stated scratch memory. Empty messages are sent only by algorithms
/// that have no others.
namespace tandem::detail {

// all_reduce. `from` may be `data`.

/// Reduce-scatter, then all-gather, around a ring (Patarasuk and Yuan 2009, Bandwidth Optimal
/// All-reduce Algorithms for Clusters of Workstations). Element i of segment s = x_s, then op
/// x_(s+1), ... around the ring to x_(s-1), the running result on the left; segment s of E elements
/// is [E s / n, E (s + 1) / n). 2 (n - 1) L + 2 (n - 1) / n T, the minimum of traffic.
/// Scratch: `ring_walk::window` chunks.
asio::awaitable<void> ring_all_reduce(call& c, const_view from, mutable_view data, reducer by,
                                      ring_cut cut);
/// Folded to a power of two; then neighbours combine, then pairs, then fours: always (result of
/// lower ranks) op (result of higher ones); n = 5: ((x0 x1) x2) (x3 x4) (Thakur, Rabenseifner,
/// Gropp 2005, Optimization of Collective Communication Operations in MPICH, section 4.5).
/// ceil(log2 n) (L + T). Scratch: B.
asio::awaitable<void> recursive_doubling(call& c, const_view from, mutable_view data, reducer by);
/// Recursive doubling with half of the remaining elements in each step, so the order and the bits
/// are the same; then the halves are exchanged in reverse (Rabenseifner 2004, Optimization of
/// Collective Reduction Operations). 2 log2 n L + 2 (n - 1) / n T, plus 2 (L + T) if n is not a
/// power of two. Scratch: B.
asio::awaitable<void> halving_doubling(call& c, const_view from, mutable_view data, reducer by);
/// Every rank gets the data of all others and combines it in the order of recursive doubling, with
/// the same bits: the fewest steps for short messages, above all where ranks share cores and each
/// step costs a context switch. (n - 1) (L + T), less where messages overlap. Scratch: n B.
asio::awaitable<void> direct_all_reduce(call& c, const_view from, mutable_view data, reducer by);

// reduce: `data` of each to `result` at the root. v is the rank counted from the root.

/// Whole messages up a binomial tree: neighbours combine, then pairs, then fours, counted from the
/// root; n = 5: ((x0 x1) (x2 x3)) x4 (Thakur et al. 2005, section 4.4). ceil(log2 n) (L + T).
/// Scratch: 2 B; at the root B.
asio::awaitable<void> tree_reduce(call& c, const_view data, mutable_view result, int root,
                                  reducer by);
/// Chunks from the last rank to the root: x_0 op (x_1 op (... op x_(n-1))), counted from the root.
/// (n - 1) L + T and n - 2 chunks. Scratch: `chain_window` chunks, twice.
asio::awaitable<void> chain_reduce(call& c, const_view data, mutable_view result, int root,
                                   reducer by, std::size_t chunk_bytes);

// broadcast

/// Whole messages down a binomial tree (Thakur et al. 2005, section 4.2). ceil(log2 n) (L + T).
asio::awaitable<void> tree_broadcast(call& c, mutable_view data, int root);
/// Messages in flight of a chain, in each direction.
constexpr std::size_t chain_window = 2;
/// Chunks from rank to rank, each forwarded while the next arrives (Pjesivac-Grbovic et al. 2007,
/// Performance Analysis of MPI Collective Operations: pipelined chain). (n - 1) L + T and n - 2
/// chunks.
asio::awaitable<void> chain_broadcast(call& c, mutable_view data, int root,
                                      std::size_t chunk_bytes);

// reduce_scatter: block r of the result to `mine`, which may be block r of `all`.

/// The first half of the ring, a segment per block: block r = x_(r+1) op x_(r+2) ... op x_r, the
/// running result on the left. (n - 1) L + (n - 1) / n T. Scratch: 3 `ring_walk::window` chunks.
asio::awaitable<void> ring_reduce_scatter(call& c, const_view all, mutable_view mine, reducer by,
                                          ring_cut cut);
/// Each rank receives its block of every other rank directly, in chunks, and combines them in the
/// order of the ring, with the same bits (Thakur et al. 2005, section 4.3: pairwise exchange).
/// (n - 1) L + (n - 1) / n T. Scratch: 2 `direct_window` + 1 chunks.
asio::awaitable<void> pairwise_reduce_scatter(call& c, const_view all, mutable_view mine,
                                              reducer by, ring_cut cut);
/// Folded to a power of two; then with a partner at half the ranks, a quarter, ..., halving the
/// blocks: (result of lower ranks) op (result of higher ones); n = 4, all blocks: (x0 x2) (x1 x3)
/// (Thakur et al. 2005, section 4.3). log2 n L + (n - 1) / n T, plus 2 L + T if n is not a power of
/// two. Scratch: 2 B.
asio::awaitable<void> halving_reduce_scatter(call& c, const_view all, mutable_view mine, reducer by,
                                             blocks cut);

// all_gather: `mine` may be this rank's block of `all`.

/// Blocks around a ring, in chunks. (n - 1) L + (n - 1) / n T.
asio::awaitable<void> ring_all_gather(call& c, const_view mine, mutable_view all, ring_cut cut);
/// In round k every rank gets 2^k more blocks from the rank that far ahead (Bruck et al. 1997,
/// Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems).
/// ceil(log2 n) L + (n - 1) / n T. Scratch: B.
asio::awaitable<void> bruck_all_gather(call& c, const_view mine, mutable_view all, blocks cut);
/// Every rank exchanges with every other, up to `direct_window` distances at once.
/// (n - 1) L + (n - 1) / n T.
asio::awaitable<void> direct_all_gather(call& c, const_view mine, mutable_view all, blocks cut);

// all_to_all

/// Distances in progress at once, each with one send and one receive.
constexpr std::size_t direct_window = 4;
/// all_to_all: sends block i of `from` to rank i and receives block i of `into` from it, to the
/// rank ahead and from the rank behind at distance 1, 2, ...; up to `window` distances at once
/// (pairwise exchange with 1). (n - 1) L + (n - 1) / n T. Empty blocks are not sent.
asio::awaitable<void> exchange_with_all(call& c, const_view from, blocks sent, mutable_view into,
                                        blocks received, std::size_t window);
/// all_to_all of equal blocks in ceil(log2 n) rounds of about half of all blocks (Bruck et al.
/// 1997). ceil(log2 n) (L + T / 2). Scratch: 2 B.
asio::awaitable<void> bruck_all_to_all(call& c, const_view from, mutable_view into, blocks cut);

// gather and scatter

/// Every rank with the root, up to `call::transfer_count` transfers at once there. At least
/// L + (n - 1) / n T.
asio::awaitable<void> direct_gather(call& c, const_view mine, mutable_view all, blocks cut,
                                    int root);
asio::awaitable<void> direct_scatter(call& c, const_view all, mutable_view mine, blocks cut,
                                     int root);
/// Up or down a binomial tree counted from the root, equal blocks, the blocks of a subtree in one
/// message. ceil(log2 n) L + (n - 1) / n T at the root. Scratch: B.
asio::awaitable<void> tree_gather(call& c, const_view mine, mutable_view all, int root);
asio::awaitable<void> tree_scatter(call& c, const_view all, mutable_view mine, int root);

// Shared steps.

/// For the upper rank of a folded pair: sends its data to its neighbour and receives the result in
/// place.
asio::awaitable<void> fold_out(call& c, mutable_view data);
/// For the lower rank: combines the neighbour's data after its own.
asio::awaitable<void> fold_in(call& c, mutable_view data, mutable_view theirs, reducer by);
/// Sends `mine` to all other ranks and receives their blocks into `all`.
asio::awaitable<void> send_to_all(call& c, const_view mine, mutable_view all, blocks cut);

// A group of one.

asio::awaitable<void> single_rank(std::shared_ptr<group> in, const_view from, mutable_view into);
/// Prepares the data with `by`, as a reduction over one rank.
asio::awaitable<void> single_rank(std::shared_ptr<group> in, const_view from, mutable_view into,
                                  reducer by);

}  // namespace tandem::detail
