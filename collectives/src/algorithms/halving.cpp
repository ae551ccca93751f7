#include <cstring>

#include "algorithms/algorithms.hpp"
#include "algorithms/fold.hpp"

namespace tandem::detail {
namespace {

/// The blocks of the ranks behind numbers [first, last) of the folded group: one stretch.
extent stretch(const fold& as, const blocks& cut, int first, int last) noexcept {
  const int from = as.rank_of(first);
  const int to = as.rank_of(last - 1) + as.width_of(last - 1);
  return {cut.offset(from), cut.offset(to) - cut.offset(from)};
}

/// The upper one of a folded pair: gives everything, and gets its own block.
asio::awaitable<void> through_neighbour(call& c, const_view all, mutable_view mine) {
  const int neighbour = c.in->rank() - 1;
  if (!c.in->connected(neighbour)) co_await c.in->connect(neighbour);
  const link there = c.in->to(neighbour);
  co_await exchange(c, there, all, there, mine);
}

}  // namespace

asio::awaitable<void> halving_reduce_scatter(call& c, const_view all, mutable_view mine, reducer by,
                                             blocks cut) {
  const fold as(c.in->size(), c.in->rank());
  const mutable_view work{c.scratch(), all.bytes};
  by.prepare(work.data, all.data, all.bytes);
  if (as.is_folded) {
    c.at("halving, fold", 0, 1);
    if (!as.goes_on) {
      co_await through_neighbour(c, work, mine);
      co_return;
    }
    const mutable_view theirs{c.scratch() + all.bytes, all.bytes};
    co_await fold_in(c, work, theirs, by);
  }
  int first = 0;
  int last = as.size;
  for (int step = 0; step < as.steps(); ++step) {
    c.at("halving", step, as.steps());
    const int middle = (first + last) / 2;
    const bool keeps_upper = as.index >= middle;
    const int peer =
        as.rank_of(keeps_upper ? as.index - (middle - first) : as.index + (middle - first));
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
    const link there = c.in->to(peer);
    const mutable_view lower = at(work, stretch(as, cut, first, middle));
    const mutable_view upper = at(work, stretch(as, cut, middle, last));
    const mutable_view kept = keeps_upper ? upper : lower;
    const mutable_view given = keeps_upper ? lower : upper;
    const mutable_view theirs{c.scratch() + all.bytes, kept.bytes};
    co_await exchange(c, there, given, there, theirs);
    if (keeps_upper) {
      by.combine_before(kept.data, theirs.data, kept.bytes);
      first = middle;
    } else {
      by.combine_after(kept.data, theirs.data, kept.bytes);
      last = middle;
    }
  }
  const mutable_view own = cut.in(work, c.in->rank());
  by.finish(at(work, stretch(as, cut, as.index, as.index + 1)));
  if (own.bytes > 0) std::memcpy(mine.data, own.data, own.bytes);
  if (!as.is_folded) co_return;
  c.at("halving, unfold", 0, 1);
  const mutable_view of_neighbour = cut.in(work, c.in->rank() + 1);
  co_await unfold(c, of_neighbour);
}

}  // namespace tandem::detail
