#include "algorithms/algorithms.hpp"
#include "partition/fold.hpp"

namespace tandem::detail {

asio::awaitable<void> fold_out(call& c, mutable_view data) {
  const int neighbour = c.in->rank() - 1;
  co_await send_to(c, neighbour, data);
  // Only after the send has completed: the result overwrites the data.
  co_await recv_from(c, neighbour, data);
}

asio::awaitable<void> fold_in(call& c, mutable_view data, mutable_view theirs, reducer by) {
  co_await recv_from(c, c.in->rank() + 1, theirs);
  by.combine_after(data.data, theirs.data, data.bytes);
}

asio::awaitable<void> recursive_doubling(call& c, const_view from, mutable_view data, reducer by) {
  const fold as(c.in->size(), c.in->rank());
  const mutable_view theirs = c.scratch(0, data.bytes);
  by.prepare(data.data, from.data, data.bytes);
  if (as.is_folded) {
    c.at("recursive doubling, fold", 0, 1);
    if (!as.continues) {
      co_await fold_out(c, data);
      co_return;
    }
    co_await fold_in(c, data, theirs, by);
  }
  for (int step = 0; step < as.steps(); ++step) {
    c.at("recursive doubling", step, as.steps());
    const int other = as.index ^ (1 << step);
    const int peer = as.rank_of(other);
    if (!exchanged(c, peer, data, theirs)) co_await exchange(c, peer, data, peer, theirs);
    if (other < as.index) {
      by.combine_before(data.data, theirs.data, data.bytes);
    } else {
      by.combine_after(data.data, theirs.data, data.bytes);
    }
  }
  by.finish(data);
  if (!as.is_folded) co_return;
  c.at("recursive doubling, unfold", 0, 1);
  co_await send_to(c, c.in->rank() + 1, data);
}

}  // namespace tandem::detail
