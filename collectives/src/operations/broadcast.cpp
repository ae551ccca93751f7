#include <utility>

#include "algorithms/board.hpp"
#include "algorithms/two_level.hpp"
#include "arguments.hpp"

namespace tandem {

asio::awaitable<void> broadcast(communicator& among, mutable_view data, int root, algorithm how) {
  using namespace detail;
  constexpr collective kind = collective::broadcast;
  const std::shared_ptr<group>& g = among.internals();
  const call_backend over = backend_for(*g, kind, how, data);
  if (auto wrong = first_error(check_root(*g, "broadcast", root),
                               check_memory(over, "broadcast", data), check_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  if (data.bytes == 0 || g->size() == 1) return empty_call(g);
  if (over.islands != nullptr) {
    lease slot(g, call_record(kind, by_islands, data.bytes, root));
    return run_call(std::move(slot), over.islands->broadcast(data, root));
  }
  const plan_rule& rule = g->choose(kind, data.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->resolve_algorithm(kind, how, data.bytes);
  lease slot(g, call_record(kind, how, data.bytes, root), 0, g->queue_for(data));
  call& c = *slot;
  if (how == algorithm::board) {
    return run_call(std::move(slot), board_call(board_broadcast, data, data, root));
  }
  if (how == algorithm::chain) {
    return run_call(std::move(slot), chain_broadcast(c, data, root, rule.chunk_bytes));
  }
  if (how == algorithm::two_level) {
    return run_call(std::move(slot), two_level_broadcast(c, data, root, rule.chunk_bytes));
  }
  return run_call(std::move(slot), tree_broadcast(c, data, root));
}

}  // namespace tandem
