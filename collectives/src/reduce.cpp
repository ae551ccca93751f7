#include <utility>

#include "algorithms/board.hpp"
#include "arguments.hpp"

namespace tandem {
asio::awaitable<void> reduce(communicator& among, const_view data, mutable_view result,
                             data_type type, reduction what, int root, algorithm how) {
  using namespace detail;
  constexpr collective kind = collective::reduce;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong =
          first_wrong(wrong_root(*g, "reduce", root),
                      wrong_elements(*g, "reduce", data, type, what), wrong_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  if (g->rank() == root) {
    if (auto wrong = first_wrong(wrong_elements(*g, "reduce", result, type, what),
                                 wrong_result("reduce", data, result))) {
      return refuse(*wrong);
    }
  }
  if (data.bytes == 0) return nothing(g);
  device_queue* const queue = g->queue_for(data);
  const reducer by(type, what, g->size(), queue);
  if (g->size() == 1) return alone(g, data, result, by);
  const plan_rule& rule = g->choose(kind, data.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->possible(kind, how, data.bytes);
  const call_record record(kind, how, data.bytes, type, what.op, root);
  if (how == algorithm::board) {
    lease place(g, record, board_scratch(*g, data.bytes));
    return carry_out(std::move(place), board_call(board_reduce, data, result, by, root));
  }
  if (how == algorithm::chain) {
    const std::size_t chunk = std::min(std::max(rule.chunk_bytes, by.element_bytes()), data.bytes);
    lease place(g, record, 2 * chain_window * chunk, queue);
    call& c = *place;
    return carry_out(std::move(place), chain_reduce(c, data, result, root, by, chunk));
  }
  lease place(g, record, 2 * data.bytes, queue);
  call& c = *place;
  return carry_out(std::move(place), tree_reduce(c, data, result, root, by));
}

}  // namespace tandem
