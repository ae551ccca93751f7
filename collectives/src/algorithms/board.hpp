#pragma once

#include <optional>
#include <utility>

#include "algorithms/algorithms.hpp"

/// Short collectives of ranks that share a board: each rank writes what it brings once, where all
/// others read it. One L, and n B of reading at the rank that reads most; nothing is sent.
/// @pre the group has a board, and each rank brings at most `board::most_bytes`.
namespace tandem::detail {

/// What a call at the board is given. No coroutine of its own: a step that says false is asked
/// again when the board has changed.
struct board_call {
  using step = bool (*)(call& c, board_call& given);
  board_call(step does, const_view brings, mutable_view gets, int its_root = 0) noexcept
      : how(does), from(brings), into(gets), root(its_root) {}
  board_call(step does, const_view brings, mutable_view gets, reducer with,
             int its_root = 0) noexcept
      : how(does), from(brings), into(gets), by(with), root(its_root) {}
  board_call(step does, const_view brings, mutable_view gets, blocks of_ranks) noexcept
      : how(does), from(brings), into(gets), cut(std::move(of_ranks)) {}
  board_call(step does, const_view brings, mutable_view gets, reducer with,
             blocks of_ranks) noexcept
      : how(does), from(brings), into(gets), by(with), cut(std::move(of_ranks)) {}

  step how;
  const_view from;
  mutable_view into;
  std::optional<reducer> by;
  blocks cut{std::size_t{0}, 1};
  int root = 0;
  bool has_written = false;
};

bool board_barrier(call& c, board_call& given);
/// `into`, of the root to all.
bool board_broadcast(call& c, board_call& given);
/// The order of `tree_reduce`. Scratch: n B, where there are more than two ranks.
bool board_reduce(call& c, board_call& given);
/// The order of recursive doubling. Scratch: n B, where there are more than two ranks.
bool board_all_reduce(call& c, board_call& given);
/// The order of the ring.
bool board_reduce_scatter(call& c, board_call& given);
bool board_all_gather(call& c, board_call& given);
bool board_all_to_all(call& c, board_call& given);

/// So much of it the two that combine need.
inline std::size_t board_scratch(const group& g, std::size_t bytes) noexcept {
  return g.size() > 2 ? static_cast<std::size_t>(g.size()) * bytes : 0;
}

/// As `carry_out`, of a call at the board of its group.
asio::awaitable<void> carry_out(lease place, board_call given);

}  // namespace tandem::detail
