#include <utility>

#include "algorithms/board.hpp"
#include "algorithms/two_level.hpp"
#include "arguments.hpp"

namespace tandem {
namespace detail {
namespace {

/// @pre the arguments are checked.
asio::awaitable<void> start_reduce_scatter(const std::shared_ptr<group>& g, const_view all,
                                           mutable_view mine, blocks cut, data_type type,
                                           reduction what, algorithm how) {
  constexpr collective kind = collective::reduce_scatter;
  if (all.bytes == 0) return empty_call(g);
  device_queue* const queue = g->queue_for(all);
  const reducer by(type, what, g->size(), queue);
  if (g->size() == 1) return single_rank(g, all, mine, by);
  const plan_rule& rule = g->choose(kind, all.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->resolve_algorithm(kind, how, all.bytes);
  const call_record record(kind, how, all.bytes, type, what.op);
  if (how == algorithm::board) {
    lease slot(g, record);
    return run_call(std::move(slot),
                    board_call(board_reduce_scatter, all, mine, by, std::move(cut)));
  }
  if (how == algorithm::halving_doubling) {
    lease slot(g, record, 2 * all.bytes, queue);
    call& c = *slot;
    return run_call(std::move(slot), halving_reduce_scatter(c, all, mine, by, std::move(cut)));
  }
  if (how == algorithm::two_level && g->hosts().where().two_levels()) {
    const auto hosts = static_cast<std::size_t>(g->hosts().where().hosts());
    lease slot(g, record, hosts * cut.longest(), queue);
    call& c = *slot;
    return run_call(std::move(slot),
                    two_level_reduce_scatter(c, all, mine, by, std::move(cut), rule.chunk_bytes));
  }
  ring_cut pieces(std::move(cut), by.element_bytes(), rule.chunk_bytes);
  const bool around = how == algorithm::ring || how == algorithm::two_level;
  const std::size_t scratch_chunks = around ? 3 * ring_walk::window : 2 * direct_window + 1;
  lease slot(g, record, scratch_chunks * pieces.chunk_bytes, queue);
  call& c = *slot;
  if (around) {
    return run_call(std::move(slot), ring_reduce_scatter(c, all, mine, by, std::move(pieces)));
  }
  return run_call(std::move(slot), pairwise_reduce_scatter(c, all, mine, by, std::move(pieces)));
}

}  // namespace
}  // namespace detail

asio::awaitable<void> reduce_scatter(communicator& among, const_view all, mutable_view mine,
                                     data_type type, reduction what, algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  constexpr collective kind = collective::reduce_scatter;
  const call_backend over = backend_for(*g, kind, how, all, type, what.op);
  if (auto wrong = first_error(check_elements(over, "reduce_scatter", all, type, what),
                               check_elements(over, "reduce_scatter", mine, type, what),
                               check_equal_blocks(*g, "reduce_scatter", all, mine),
                               check_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  blocks cut(mine.bytes, g->size());
  if (auto wrong = check_block_position("reduce_scatter", mine, all, cut.at(g->rank()))) {
    return refuse(*wrong);
  }
  if (over.islands != nullptr && all.bytes > 0) {
    lease slot(g, call_record(kind, by_islands, all.bytes, type, what.op));
    return run_call(std::move(slot), over.islands->reduce_scatter(all, mine, type, what));
  }
  return start_reduce_scatter(g, all, mine, std::move(cut), type, what, how);
}

asio::awaitable<void> reduce_scatter_v(communicator& among, const_view all, mutable_view mine,
                                       std::span<const std::size_t> bytes_of_rank, data_type type,
                                       reduction what, algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong = first_error(check_memory(*g, "reduce_scatter_v", all),
                               check_memory(*g, "reduce_scatter_v", mine),
                               check_lengths(*g, "reduce_scatter_v", all, bytes_of_rank),
                               check_block(*g, "reduce_scatter_v", mine, bytes_of_rank),
                               check_algorithm(collective::reduce_scatter, how))) {
    return refuse(*wrong);
  }
  for (std::size_t i = 0, offset = 0; i < bytes_of_rank.size(); ++i) {
    const const_view block = all.part(offset, bytes_of_rank[i]);
    if (auto wrong = check_elements(*g, "reduce_scatter_v", block, type, what))
      return refuse(*wrong);
    offset += bytes_of_rank[i];
  }
  if (auto wrong = check_elements(*g, "reduce_scatter_v", mine, type, what)) return refuse(*wrong);
  blocks cut(bytes_of_rank);
  if (auto wrong = check_block_position("reduce_scatter_v", mine, all, cut.at(g->rank()))) {
    return refuse(*wrong);
  }
  return start_reduce_scatter(g, all, mine, std::move(cut), type, what, how);
}

}  // namespace tandem
