#include "algorithms/algorithms.hpp"
#include "partition/fold.hpp"

namespace tandem::detail {
namespace {

/// The contiguous blocks of the ranks with indices [first, last) in the folded group.
extent block_range(const fold& as, const blocks& cut, int first, int last) noexcept {
  const int from = as.rank_of(first);
  const int to = as.rank_of(last - 1) + as.width_of(last - 1);
  return {cut.offset(from), cut.offset(to) - cut.offset(from)};
}

}  // namespace

asio::awaitable<void> halving_reduce_scatter(call& c, const_view all, mutable_view mine, reducer by,
                                             blocks cut) {
  const fold as(c.in->size(), c.in->rank());
  const mutable_view work = c.scratch(0, all.bytes);
  const mutable_view recv_view = c.scratch(all.bytes, all.bytes);
  // Until the first combination the data is read from the caller's view.
  const_view have = all;
  if (by.prepares()) {
    by.prepare(work.data, all.data, all.bytes);
    have = work;
  }
  if (as.is_folded) {
    c.at("halving, fold", 0, 1);
    if (!as.continues) {
      // Sends all its data and receives its block of the result.
      co_await exchange(c, c.in->rank() - 1, have, c.in->rank() - 1, mine);
      co_return;
    }
    const mutable_view theirs = recv_view;
    co_await recv_from(c, c.in->rank() + 1, theirs);
    by.combine(work.data, have.data, theirs.data, all.bytes);
    have = work;
  }
  int first = 0;
  int last = as.size;
  for (int step = 0; step < as.steps(); ++step) {
    c.at("halving", step, as.steps());
    const int middle = (first + last) / 2;
    const bool keeps_upper = as.index >= middle;
    const int peer =
        as.rank_of(keeps_upper ? as.index - (middle - first) : as.index + (middle - first));
    const extent lower = block_range(as, cut, first, middle);
    const extent upper = block_range(as, cut, middle, last);
    const extent kept = keeps_upper ? upper : lower;
    const const_view given = at(have, keeps_upper ? lower : upper);
    const mutable_view theirs = recv_view.part(0, kept.bytes);
    co_await exchange(c, peer, given, peer, theirs);
    const bool is_last = step + 1 == as.steps() && !as.is_folded;
    const mutable_view into = is_last ? mine : at(work, kept);
    const void* const own = at(have, kept).data;
    if (keeps_upper) {
      by.combine(into.data, theirs.data, own, kept.bytes);
      first = middle;
    } else {
      by.combine(into.data, own, theirs.data, kept.bytes);
      last = middle;
    }
    have = work;
  }
  if (!as.is_folded) {
    by.finish(mine);
    co_return;
  }
  by.finish(at(work, block_range(as, cut, as.index, as.index + 1)));
  c.copy(mine, cut.in(work, c.in->rank()));
  c.at("halving, unfold", 0, 1);
  const mutable_view of_neighbour = cut.in(work, c.in->rank() + 1);
  co_await send_to(c, c.in->rank() + 1, of_neighbour);
}

}  // namespace tandem::detail
