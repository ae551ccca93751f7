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
  if (all.bytes == 0) return nothing(g);
  if (g->size() == 1) return alone(g, mine, all);
  const plan_rule& rule = g->choose(kind, all.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->possible(kind, how, all.bytes);
  lease place(g, call_record(kind, how, all.bytes), how == algorithm::bruck ? all.bytes : 0,
              g->queue_for(all));
  call& c = *place;
  if (how == algorithm::board) {
    return carry_out(std::move(place), board_call(board_all_gather, mine, all, std::move(cut)));
  }
  if (how == algorithm::two_level && g->hosts().where().two_levels()) {
    return carry_out(std::move(place),
                     two_level_all_gather(c, mine, all, std::move(cut), rule.chunk_bytes));
  }
  if (how == algorithm::ring || how == algorithm::two_level) {
    ring_cut pieces(std::move(cut), 1, rule.chunk_bytes);
    return carry_out(std::move(place), ring_all_gather(c, mine, all, std::move(pieces)));
  }
  if (how == algorithm::direct) {
    return carry_out(std::move(place), direct_all_gather(c, mine, all, std::move(cut)));
  }
  return carry_out(std::move(place), bruck_all_gather(c, mine, all, std::move(cut)));
}

}  // namespace
}  // namespace detail

asio::awaitable<void> all_gather(communicator& among, const_view mine, mutable_view all,
                                 algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong = first_wrong(
          wrong_memory(*g, "all_gather", mine), wrong_memory(*g, "all_gather", all),
          wrong_share(*g, "all_gather", all, mine), wrong_algorithm(collective::all_gather, how))) {
    return refuse(*wrong);
  }
  blocks cut(mine.bytes, g->size());
  if (auto wrong = wrong_place("all_gather", mine, all, cut.at(g->rank()))) return refuse(*wrong);
  return start_all_gather(g, mine, all, std::move(cut), how);
}

asio::awaitable<void> all_gather_v(communicator& among, const_view mine, mutable_view all,
                                   std::span<const std::size_t> bytes_of_rank, algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong =
          first_wrong(wrong_memory(*g, "all_gather_v", mine), wrong_memory(*g, "all_gather_v", all),
                      wrong_lengths(*g, "all_gather_v", all, bytes_of_rank),
                      wrong_block(*g, "all_gather_v", mine, bytes_of_rank),
                      wrong_algorithm(collective::all_gather, how))) {
    return refuse(*wrong);
  }
  blocks cut(bytes_of_rank);
  if (auto wrong = wrong_place("all_gather_v", mine, all, cut.at(g->rank()))) return refuse(*wrong);
  return start_all_gather(g, mine, all, std::move(cut), how);
}

}  // namespace tandem
