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
  if (all.bytes == 0) return nothing(g);
  device_queue* const queue = g->queue_for(all);
  const reducer by(type, what, g->size(), queue);
  if (g->size() == 1) return alone(g, all, mine, by);
  const plan_rule& rule = g->choose(kind, all.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->possible(kind, how, all.bytes);
  const call_record record(kind, how, all.bytes, type, what.op);
  if (how == algorithm::board) {
    lease place(g, record);
    return carry_out(std::move(place),
                     board_call(board_reduce_scatter, all, mine, by, std::move(cut)));
  }
  if (how == algorithm::halving_doubling) {
    lease place(g, record, 2 * all.bytes, queue);
    call& c = *place;
    return carry_out(std::move(place), halving_reduce_scatter(c, all, mine, by, std::move(cut)));
  }
  if (how == algorithm::two_level && g->hosts().where().two_levels()) {
    const auto hosts = static_cast<std::size_t>(g->hosts().where().hosts());
    lease place(g, record, hosts * cut.longest(), queue);
    call& c = *place;
    return carry_out(std::move(place),
                     two_level_reduce_scatter(c, all, mine, by, std::move(cut), rule.chunk_bytes));
  }
  ring_cut pieces(std::move(cut), by.element_bytes(), rule.chunk_bytes);
  const bool around = how == algorithm::ring || how == algorithm::two_level;
  const std::size_t scratch_chunks = around ? 3 * ring_walk::window : 2 * direct_window + 1;
  lease place(g, record, scratch_chunks * pieces.chunk_bytes, queue);
  call& c = *place;
  if (around) {
    return carry_out(std::move(place), ring_reduce_scatter(c, all, mine, by, std::move(pieces)));
  }
  return carry_out(std::move(place), pairwise_reduce_scatter(c, all, mine, by, std::move(pieces)));
}

}  // namespace
}  // namespace detail

asio::awaitable<void> reduce_scatter(communicator& among, const_view all, mutable_view mine,
                                     data_type type, reduction what, algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong = first_wrong(wrong_elements(*g, "reduce_scatter", all, type, what),
                               wrong_elements(*g, "reduce_scatter", mine, type, what),
                               wrong_share(*g, "reduce_scatter", all, mine),
                               wrong_algorithm(collective::reduce_scatter, how))) {
    return refuse(*wrong);
  }
  blocks cut(mine.bytes, g->size());
  if (auto wrong = wrong_place("reduce_scatter", mine, all, cut.at(g->rank()))) {
    return refuse(*wrong);
  }
  return start_reduce_scatter(g, all, mine, std::move(cut), type, what, how);
}

asio::awaitable<void> reduce_scatter_v(communicator& among, const_view all, mutable_view mine,
                                       std::span<const std::size_t> bytes_of_rank, data_type type,
                                       reduction what, algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong = first_wrong(wrong_memory(*g, "reduce_scatter_v", all),
                               wrong_memory(*g, "reduce_scatter_v", mine),
                               wrong_lengths(*g, "reduce_scatter_v", all, bytes_of_rank),
                               wrong_block(*g, "reduce_scatter_v", mine, bytes_of_rank),
                               wrong_algorithm(collective::reduce_scatter, how))) {
    return refuse(*wrong);
  }
  for (std::size_t i = 0, offset = 0; i < bytes_of_rank.size(); ++i) {
    const const_view block = all.part(offset, bytes_of_rank[i]);
    if (auto wrong = wrong_elements(*g, "reduce_scatter_v", block, type, what))
      return refuse(*wrong);
    offset += bytes_of_rank[i];
  }
  if (auto wrong = wrong_elements(*g, "reduce_scatter_v", mine, type, what)) return refuse(*wrong);
  blocks cut(bytes_of_rank);
  if (auto wrong = wrong_place("reduce_scatter_v", mine, all, cut.at(g->rank()))) {
    return refuse(*wrong);
  }
  return start_reduce_scatter(g, all, mine, std::move(cut), type, what, how);
}

}  // namespace tandem
