#include <fmt/format.h>

#include <utility>

#include "algorithms/board.hpp"
#include "arguments.hpp"

namespace tandem {
namespace detail {
namespace {

constexpr collective kind = collective::all_to_all;

std::size_t window_of(algorithm how) {
  return how == algorithm::pairwise ? 1 : direct_window;
}

}  // namespace
}  // namespace detail

asio::awaitable<void> all_to_all(communicator& among, const_view from, mutable_view into,
                                 algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  const auto n = static_cast<std::size_t>(g->size());
  const const_view block = into.part(0, into.bytes / n);
  const call_backend over = backend_for(*g, kind, how, into);
  if (auto wrong = first_error(
          check_memory(over, "all_to_all", from), check_memory(over, "all_to_all", into),
          check_separate_views("all_to_all", from, into), check_result("all_to_all", from, into),
          check_equal_blocks(*g, "all_to_all", into, block), check_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  if (into.bytes == 0) return empty_call(g);
  if (n == 1) return single_rank(g, from, into);
  if (over.islands != nullptr) {
    lease slot(g, call_record(kind, by_islands, into.bytes));
    call& c = *slot;
    return run_call(std::move(slot), over.islands->all_to_all(c, from, into));
  }
  if (how == algorithm::automatic) how = g->choose(kind, into.bytes).how;
  how = g->resolve_algorithm(kind, how, into.bytes);
  blocks cut(block.bytes, g->size());
  lease slot(g, call_record(kind, how, into.bytes), how == algorithm::bruck ? 2 * into.bytes : 0,
             g->queue_for(into));
  call& c = *slot;
  if (how == algorithm::board) {
    return run_call(std::move(slot), board_call(board_all_to_all, from, into, std::move(cut)));
  }
  if (how == algorithm::bruck) {
    return run_call(std::move(slot), bruck_all_to_all(c, from, into, std::move(cut)));
  }
  blocks same(cut);
  return run_call(std::move(slot), exchange_with_all(c, from, std::move(cut), into, std::move(same),
                                                     window_of(how)));
}

asio::awaitable<void> all_to_all_v(communicator& among, const_view from,
                                   std::span<const std::size_t> sent, mutable_view into,
                                   std::span<const std::size_t> received, algorithm how) {
  using namespace detail;
  const std::shared_ptr<group>& g = among.internals();
  if (auto wrong = first_error(
          check_memory(*g, "all_to_all_v", from), check_memory(*g, "all_to_all_v", into),
          check_separate_views("all_to_all_v", from, into),
          check_lengths(*g, "all_to_all_v", from, sent),
          check_lengths(*g, "all_to_all_v", into, received), check_algorithm(kind, how))) {
    return refuse(*wrong);
  }
  const auto me = static_cast<std::size_t>(g->rank());
  if (how == algorithm::bruck || sent[me] != received[me]) {
    return refuse(how == algorithm::bruck
                      ? error(errc::bad_input,
                              "all_to_all_v: bruck requires blocks of equal length",
                              "choose pairwise or direct")
                      : error(errc::bad_input,
                              fmt::format("all_to_all_v: this rank sends itself {} bytes and "
                                          "receives {} from itself",
                                          sent[me], received[me])));
  }
  if (g->size() == 1) return single_rank(g, from, into);
  // Lengths differ by rank, so they neither select an algorithm nor belong into the call record.
  if (how == algorithm::automatic || how == algorithm::board) how = algorithm::direct;
  lease slot(g, call_record(kind, how, 0), 0, g->queue_for(into.bytes > 0 ? into : from));
  call& c = *slot;
  return run_call(std::move(slot),
                  exchange_with_all(c, from, blocks(sent), into, blocks(received), window_of(how)));
}

}  // namespace tandem
