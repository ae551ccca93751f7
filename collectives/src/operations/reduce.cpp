#include <utility>

#include "algorithms/board.hpp"
#include "arguments.hpp"

namespace tandem {
asio::awaitable<void> reduce(communicator& among, const_view data, mutable_view result,
                             data_type type, reduction what, int root, algorithm how) {
  using namespace detail;
  constexpr collective kind = collective::reduce;
  const std::shared_ptr<group>& g = among.internals();
  const call_backend over = backend_for(*g, kind, how, data, type, what.op);
  if (auto wrong = first_error(check_root(*g, "reduce", root),
                               check_elements(over, "reduce", data, type, what),
                               check_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  if (g->rank() == root) {
    if (auto wrong = first_error(check_elements(over, "reduce", result, type, what),
                                 check_result("reduce", data, result))) {
      return refuse(*wrong);
    }
  }
  if (data.bytes == 0) return empty_call(g);
  if (over.islands != nullptr) {
    lease slot(g, call_record(kind, by_islands, data.bytes, type, what.op, root));
    return run_call(std::move(slot), over.islands->reduce(data, result, type, what, root));
  }
  device_queue* const queue = g->queue_for(data);
  const reducer by(type, what, g->size(), queue);
  if (g->size() == 1) return single_rank(g, data, result, by);
  const plan_rule& rule = g->choose(kind, data.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->resolve_algorithm(kind, how, data.bytes);
  const call_record record(kind, how, data.bytes, type, what.op, root);
  if (how == algorithm::board) {
    lease slot(g, record, board_scratch(*g, data.bytes));
    return run_call(std::move(slot), board_call(board_reduce, data, result, by, root));
  }
  if (how == algorithm::chain) {
    const std::size_t chunk = std::min(std::max(rule.chunk_bytes, by.element_bytes()), data.bytes);
    lease slot(g, record, 2 * chain_window * chunk, queue);
    call& c = *slot;
    return run_call(std::move(slot), chain_reduce(c, data, result, root, by, chunk));
  }
  lease slot(g, record, 2 * data.bytes, queue);
  call& c = *slot;
  return run_call(std::move(slot), tree_reduce(c, data, result, root, by));
}

}  // namespace tandem
