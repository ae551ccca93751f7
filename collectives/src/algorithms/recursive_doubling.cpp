#include "algorithms/algorithms.hpp"
#include "algorithms/fold.hpp"

namespace tandem::detail {

asio::awaitable<void> fold_out(call& c, mutable_view data) {
  const int neighbour = c.in->rank() - 1;
  if (!c.in->connected(neighbour)) co_await c.in->connect(neighbour);
  const link there = c.in->to(neighbour);
  transfer& out = c.transfers[0];
  transfer& in = c.transfers[1];
  c.io.send(out, there, c.flow, data);
  while (!c.io.over(out)) co_await c.io.until(out);
  // Not before: the result comes to where the data left from.
  c.io.recv(in, there, c.flow, data);
  while (!c.io.over(in)) co_await c.io.until(in);
}

asio::awaitable<void> fold_from(call& c, mutable_view theirs) {
  const int neighbour = c.in->rank() + 1;
  if (!c.in->connected(neighbour)) co_await c.in->connect(neighbour);
  transfer& in = c.transfers[0];
  c.io.recv(in, c.in->to(neighbour), c.flow, theirs);
  while (!c.io.over(in)) co_await c.io.until(in);
}

asio::awaitable<void> fold_in(call& c, mutable_view data, mutable_view theirs, reducer by) {
  co_await fold_from(c, theirs);
  by.combine_after(data.data, theirs.data, data.bytes);
}

asio::awaitable<void> unfold(call& c, const_view data) {
  transfer& out = c.transfers[0];
  c.io.send(out, c.in->to(c.in->rank() + 1), c.flow, data);
  while (!c.io.over(out)) co_await c.io.until(out);
}

asio::awaitable<void> recursive_doubling(call& c, const_view from, mutable_view data, reducer by) {
  const fold as(c.in->size(), c.in->rank());
  const mutable_view theirs{c.scratch(), data.bytes};
  by.prepare(data.data, from.data, data.bytes);
  if (as.is_folded) {
    c.at("recursive doubling, fold", 0, 1);
    if (!as.goes_on) {
      co_await fold_out(c, data);
      co_return;
    }
    co_await fold_in(c, data, theirs, by);
  }
  for (int step = 0; step < as.steps(); ++step) {
    c.at("recursive doubling", step, as.steps());
    const int other = as.index ^ (1 << step);
    const int peer = as.rank_of(other);
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
    const link there = c.in->to(peer);
    co_await exchange(c, there, data, there, theirs);
    if (other < as.index) {
      by.combine_before(data.data, theirs.data, data.bytes);
    } else {
      by.combine_after(data.data, theirs.data, data.bytes);
    }
  }
  by.finish(data);
  if (!as.is_folded) co_return;
  c.at("recursive doubling, unfold", 0, 1);
  co_await unfold(c, data);
}

}  // namespace tandem::detail
