#pragma once

#include <optional>
#include <utility>

#include "algorithms/algorithms.hpp"

/// Short collectives of ranks that share a board: each rank writes its data once, and the others
/// read it. One L, and up to n B of reading at a rank; no messages.
/// @pre the group has a board, and each rank writes at most `board::max_bytes`.
namespace tandem::detail {

/// The arguments and state of a call on the board. The step is not a coroutine: if it returns false
/// it is called again when the board has changed.
struct board_call {
  using step = bool (*)(call& c, board_call& given);
  board_call(step step_fn, const_view input, mutable_view output, int root_rank = 0) noexcept
      : run_step(step_fn), from(input), into(output), root(root_rank) {}
  board_call(step step_fn, const_view input, mutable_view output, reducer op,
             int root_rank = 0) noexcept
      : run_step(step_fn), from(input), into(output), by(op), root(root_rank) {}
  board_call(step step_fn, const_view input, mutable_view output, blocks partition) noexcept
      : run_step(step_fn), from(input), into(output), cut(std::move(partition)) {}
  board_call(step step_fn, const_view input, mutable_view output, reducer op,
             blocks partition) noexcept
      : run_step(step_fn), from(input), into(output), by(op), cut(std::move(partition)) {}

  step run_step;
  const_view from;
  mutable_view into;
  std::optional<reducer> by;
  blocks cut{std::size_t{0}, 1};
  int root = 0;
  bool has_written = false;
};

bool board_barrier(call& c, board_call& given);
/// `into` is the root's data and the other ranks' output.
bool board_broadcast(call& c, board_call& given);
/// Combines in the order of `tree_reduce`. Scratch: n B if there are more than two ranks.
bool board_reduce(call& c, board_call& given);
/// Combines in the order of recursive doubling. Scratch: n B if there are more than two ranks.
bool board_all_reduce(call& c, board_call& given);
/// Combines in the order of the ring.
bool board_reduce_scatter(call& c, board_call& given);
bool board_all_gather(call& c, board_call& given);
bool board_all_to_all(call& c, board_call& given);

/// Scratch bytes of board_reduce and board_all_reduce.
inline std::size_t board_scratch(const group& g, std::size_t bytes) noexcept {
  return g.size() > 2 ? static_cast<std::size_t>(g.size()) * bytes : 0;
}

/// Runs a call on the board of its group.
asio::awaitable<void> run_call(lease slot, board_call given);

}  // namespace tandem::detail
