#include <utility>

#include "algorithms/board.hpp"
#include "algorithms/two_level.hpp"
#include "arguments.hpp"

namespace tandem {
namespace {

/// Data that is sent is overwritten as soon as the peers' data has arrived. As long as it fits the
/// caches, copying it for the peer is faster than letting the peer read it from the shared buffer
/// (measured: up to 512 KiB with two ranks, up to 128 KiB with four on two cores).
bool prefers_copy(std::size_t bytes, int ranks) noexcept {
  constexpr std::size_t max_bytes = 2 * 1024 * 1024;
  const auto n = static_cast<std::size_t>(ranks);
  return bytes <= max_bytes / (n * n);
}

}  // namespace

asio::awaitable<void> all_reduce(communicator& among, const_view data, mutable_view result,
                                 data_type type, reduction what, algorithm how) {
  using namespace detail;
  constexpr collective kind = collective::all_reduce;
  const std::shared_ptr<group>& g = among.internals();
  const call_backend over = backend_for(*g, kind, how, data, type, what.op);
  if (auto wrong = first_error(check_elements(over, "all_reduce", data, type, what),
                               check_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  if (!is_in_place(data, result)) {
    if (auto wrong = first_error(check_elements(over, "all_reduce", result, type, what),
                                 check_result("all_reduce", data, result))) {
      return refuse(*wrong);
    }
  }
  if (data.bytes == 0) return empty_call(g);
  if (over.islands != nullptr) {
    lease slot(g, call_record(kind, by_islands, data.bytes, type, what.op));
    return run_call(std::move(slot), over.islands->all_reduce(data, result, type, what));
  }
  device_queue* const queue = g->queue_for(data);
  const reducer by(type, what, g->size(), queue);
  if (g->size() == 1) return single_rank(g, data, result, by);
  const plan_rule& rule = g->choose(kind, data.bytes);
  if (how == algorithm::automatic) how = rule.how;
  how = g->resolve_algorithm(kind, how, data.bytes);
  const call_record record(kind, how, data.bytes, type, what.op);
  if (how == algorithm::board) {
    lease slot(g, record, board_scratch(*g, data.bytes));
    return run_call(std::move(slot), board_call(board_all_reduce, data, result, by));
  }
  const auto begin = [&](std::size_t scratch_bytes) {
    lease slot(g, record, scratch_bytes, queue);
    slot->rewrites = prefers_copy(data.bytes, g->size());
    return slot;
  };
  if (how == algorithm::two_level && g->hosts().where().two_levels()) {
    lease slot = begin(0);
    call& c = *slot;
    return run_call(std::move(slot), two_level_all_reduce(c, data, result, by, rule.chunk_bytes));
  }
  if (how == algorithm::ring || how == algorithm::two_level) {
    const std::size_t each = by.element_bytes();
    ring_cut cut(blocks(data.bytes / each, each, g->size()), each, rule.chunk_bytes);
    lease slot = begin(ring_walk::window * cut.chunk_bytes);
    call& c = *slot;
    return run_call(std::move(slot), ring_all_reduce(c, data, result, by, std::move(cut)));
  }
  const bool direct = how == algorithm::direct;
  const auto contributions = static_cast<std::size_t>(direct ? g->size() : 1);
  lease slot = begin(contributions * data.bytes);
  call& c = *slot;
  if (direct) return run_call(std::move(slot), direct_all_reduce(c, data, result, by));
  if (how == algorithm::halving_doubling) {
    return run_call(std::move(slot), halving_doubling(c, data, result, by));
  }
  return run_call(std::move(slot), recursive_doubling(c, data, result, by));
}

asio::awaitable<void> all_reduce(communicator& among, mutable_view data, data_type type,
                                 reduction what, algorithm how) {
  return all_reduce(among, data, data, type, what, how);
}

}  // namespace tandem
