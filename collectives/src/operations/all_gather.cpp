#include <utility>

#include "algorithms/board.hpp"
#include "algorithms/two_level.hpp"
#include "arguments.hpp"

namespace tandem {
namespace detail {
namespace {

/// @pre the arguments are checked.
asio::awaitable<void> start_all_gather(const std::shared_ptr<group>& g, const_view mine,
                                       mutable_view all, blocks cut, algorithm how) {
  constexpr collective kind = collective::all_gather;
  if (all.bytes == 0) return empty_call(g);
  if (g->size() == 1) return single_rank(g, mine, all);
  const plan_rule& rule = g->choose(kind, all.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->resolve_algorithm(kind, how, all.bytes);
  lease slot(g, call_record(kind, how, all.bytes), how == algorithm::bruck ? all.bytes : 0,
             g->queue_for(all));
  call& c = *slot;
  if (how == algorithm::board) {
    return run_call(std::move(slot), board_call(board_all_gather, mine, all, std::move(cut)));
  }
  if (how == algorithm::two_level && g->hosts().where().two_levels()) {
    return run_call(std::move(slot),
                    two_level_all_gather(c, mine, all, std::move(cut), rule.chunk_bytes));
  }
  if (how == algorithm::ring || how == algorithm::two_level) {
    ring_cut pieces(std::move(cut), 1, rule.chunk_bytes);
    return run_call(std::move(slot), ring_all_gather(c, mine, all, std::move(pieces)));
  }
  if (how == algorithm::direct) {
    return run_call(std::move(slot), direct_all_gather(c, mine, all, std::move(cut)));
  }
  return run_call(std::move(slot), bruck_all_gather(c, mine, all, std::move(cut)));
}

}  // namespace
}  // namespace detail

asio::awaitable<void> all_gather(communicator& among, const_view mine, mutable_view all,
                                 algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  const call_backend over = backend_for(*g, collective::all_gather, how, all);
  if (auto wrong =
          first_error(check_memory(over, "all_gather", mine), check_memory(over, "all_gather", all),
                      check_equal_blocks(*g, "all_gather", all, mine),
                      check_algorithm(collective::all_gather, how))) {
    return refuse(*wrong);
  }
  blocks cut(mine.bytes, g->size());
  if (auto wrong = check_block_position("all_gather", mine, all, cut.at(g->rank())))
    return refuse(*wrong);
  if (over.islands != nullptr && all.bytes > 0) {
    lease slot(g, call_record(collective::all_gather, by_islands, all.bytes));
    return run_call(std::move(slot), over.islands->all_gather(mine, all));
  }
  return start_all_gather(g, mine, all, std::move(cut), how);
}

asio::awaitable<void> all_gather_v(communicator& among, const_view mine, mutable_view all,
                                   std::span<const std::size_t> bytes_of_rank, algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong =
          first_error(check_memory(*g, "all_gather_v", mine), check_memory(*g, "all_gather_v", all),
                      check_lengths(*g, "all_gather_v", all, bytes_of_rank),
                      check_block(*g, "all_gather_v", mine, bytes_of_rank),
                      check_algorithm(collective::all_gather, how))) {
    return refuse(*wrong);
  }
  blocks cut(bytes_of_rank);
  if (auto wrong = check_block_position("all_gather_v", mine, all, cut.at(g->rank())))
    return refuse(*wrong);
  return start_all_gather(g, mine, all, std::move(cut), how);
}

}  // namespace tandem
