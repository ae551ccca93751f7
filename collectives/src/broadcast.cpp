#include <utility>

#include "algorithms/board.hpp"
#include "algorithms/two_level.hpp"
#include "arguments.hpp"

namespace tandem {

asio::awaitable<void> broadcast(communicator& among, mutable_view data, int root, algorithm how) {
  using namespace detail;
  constexpr collective kind = collective::broadcast;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong = first_wrong(wrong_root(*g, "broadcast", root),
                               wrong_memory(*g, "broadcast", data), wrong_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  if (data.bytes == 0 || g->size() == 1) return nothing(g);
  const plan_rule& rule = g->choose(kind, data.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->possible(kind, how, data.bytes);
  lease place(g, call_record(kind, how, data.bytes, root), 0, g->queue_for(data));
  call& c = *place;
  if (how == algorithm::board) {
    return carry_out(std::move(place), board_call(board_broadcast, data, data, root));
  }
  if (how == algorithm::chain) {
    return carry_out(std::move(place), chain_broadcast(c, data, root, rule.chunk_bytes));
  }
  if (how == algorithm::two_level) {
    return carry_out(std::move(place), two_level_broadcast(c, data, root, rule.chunk_bytes));
  }
  return carry_out(std::move(place), tree_broadcast(c, data, root));
}

}  // namespace tandem
