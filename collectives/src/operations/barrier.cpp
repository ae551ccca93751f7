#include <bit>
#include <tandem/collectives.hpp>

#include "algorithms/board.hpp"
#include "communicator/call.hpp"

namespace tandem {
namespace {

/// In round k every rank learns of the arrival of 2^k more ranks (Hensgen, Finkel and Manber 1988,
/// Two Algorithms for Barrier Synchronization).
asio::awaitable<void> dissemination(detail::call& c) {
  const int n = c.in->size();
  const int rank = c.in->rank();
  const int rounds = std::bit_width(static_cast<unsigned>(n - 1));
  for (int round = 0; round < rounds; ++round) {
    c.at("dissemination", round, rounds);
    const int to = (rank + (1 << round)) % n;
    const int from = (rank + n - (1 << round)) % n;
    co_await detail::exchange(c, to, const_view(), from, mutable_view());
  }
}

}  // namespace

asio::awaitable<void> barrier(communicator& among) {
  if (among.size() == 1) return detail::empty_call(among.internals());
  constexpr collective kind = collective::barrier;
  const std::shared_ptr<detail::group>& g = among.internals();
  const algorithm how = g->resolve_algorithm(kind, g->choose(kind, 0).how, 0);
  detail::lease slot(g, detail::call_record(kind, how, 0));
  if (how == algorithm::board) {
    return detail::run_call(std::move(slot), detail::board_call(detail::board_barrier, {}, {}));
  }
  detail::call& c = *slot;
  return detail::run_call(std::move(slot), dissemination(c));
}

}  // namespace tandem
