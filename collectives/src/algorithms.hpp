#pragma once

#include <tandem/collectives/collectives.hpp>

#include "call.hpp"
#include "reduce/reducer.hpp"

namespace tandem::detail {

/// Recursive doubling, the excess over a power of two folded in and out (Thakur, Rabenseifner and
/// Gropp 2005, Optimization of Collective Communication Operations in MPICH, section 4.5). Scratch:
/// the length of the data.
asio::awaitable<void> recursive_doubling(call& c, mutable_view data, reducer by);

/// How a ring cuts data: a segment per rank, each in as many chunks as any other.
struct ring_cut {
  ring_cut(std::size_t data_bytes, std::size_t element_bytes, int ranks, std::size_t chunk_bytes);

  mutable_view piece(mutable_view data, int segment, std::size_t chunk) const noexcept;
  std::size_t longest_bytes() const noexcept { return chunk_elements * element_bytes; }

  std::size_t elements;
  std::size_t element_bytes;
  int ranks;
  std::size_t chunks = 0;          ///< of a segment
  std::size_t chunk_elements = 0;  ///< of the longest chunk
};

/// Messages of a ring under way at once, each way.
constexpr std::size_t ring_window = 2;
/// Reduce-scatter, then all-gather, around a ring (Patarasuk and Yuan 2009, Bandwidth Optimal
/// All-reduce Algorithms for Clusters of Workstations). Scratch: `ring_window` of the longest
/// chunks.
asio::awaitable<void> ring(call& c, mutable_view data, reducer by, ring_cut cut);

/// Whole messages down a binomial tree (Thakur et al. 2005, section 4.2).
asio::awaitable<void> broadcast_tree(call& c, mutable_view data, int root);
/// Chunks from rank to rank, each sent on while the next arrives (Pjesivac-Grbovic et al. 2007,
/// Performance Analysis of MPI Collective Operations: pipelined chain).
asio::awaitable<void> broadcast_chain(call& c, mutable_view data, int root);

}  // namespace tandem::detail
