#pragma once

#include "algorithms/algorithms.hpp"

/// Short collectives of ranks that share a board: each rank writes what it brings once, where all
/// others read it. One L, and n B of reading at the rank that reads most; nothing is sent.
/// @pre the group has a board, and each rank brings at most `board::most_bytes`.
namespace tandem::detail {

asio::awaitable<void> board_barrier(call& c);
asio::awaitable<void> board_broadcast(call& c, mutable_view data, int root);
/// The order of `tree_reduce`. Scratch: n B, where there are more than two ranks.
asio::awaitable<void> board_reduce(call& c, const_view data, mutable_view result, int root,
                                   reducer by);
/// The order of recursive doubling. Scratch: n B, where there are more than two ranks.
asio::awaitable<void> board_all_reduce(call& c, const_view from, mutable_view data, reducer by);
/// The order of the ring.
asio::awaitable<void> board_reduce_scatter(call& c, const_view all, mutable_view mine, reducer by,
                                           blocks cut);
asio::awaitable<void> board_all_gather(call& c, const_view mine, mutable_view all, blocks cut);
asio::awaitable<void> board_all_to_all(call& c, const_view from, mutable_view into, blocks cut);

/// So much of it the two that combine need.
inline std::size_t board_scratch(const group& g, std::size_t bytes) noexcept {
  return g.size() > 2 ? static_cast<std::size_t>(g.size()) * bytes : 0;
}

}  // namespace tandem::detail
