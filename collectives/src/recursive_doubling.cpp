#include <bit>

#include "algorithms.hpp"

namespace tandem::detail {
namespace {

/// An odd one of the folded ranks: gives its data to its lower neighbour and gets the result.
asio::awaitable<void> fold(call& c, mutable_view data) {
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

}  // namespace

asio::awaitable<void> recursive_doubling(call& c, mutable_view data, reducer by) {
  const int rank = c.in->rank();
  const int doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(c.in->size())));
  const int folded = c.in->size() - doubling;
  const bool is_folded = rank < 2 * folded;
  const int steps = std::countr_zero(static_cast<unsigned>(doubling));
  const mutable_view theirs{c.scratch(), data.bytes};
  transfer& in = c.transfers[0];
  transfer& out = c.transfers[1];

  by.prepare(data);
  if (is_folded && rank % 2 != 0) {
    c.at("recursive doubling, fold", 0, 1);
    co_await fold(c, data);
    co_return;
  }
  if (is_folded) {
    c.at("recursive doubling, fold", 0, 1);
    if (!c.in->connected(rank + 1)) co_await c.in->connect(rank + 1);
    c.io.recv(in, c.in->to(rank + 1), c.flow, theirs);
    while (!c.io.over(in)) co_await c.io.until(in);
    by.combine_after(data.data, theirs.data, data.bytes);
  }
  const int index = is_folded ? rank / 2 : rank - folded;
  for (int step = 0; step < steps; ++step) {
    c.at("recursive doubling", step, steps);
    const int other = index ^ (1 << step);
    const int peer = other < folded ? 2 * other : other + folded;
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
    const link there = c.in->to(peer);
    co_await exchange(c, there, data, there, theirs);
    if (other < index) {
      by.combine_before(data.data, theirs.data, data.bytes);
    } else {
      by.combine_after(data.data, theirs.data, data.bytes);
    }
  }
  by.finish(data);
  if (is_folded) {
    c.at("recursive doubling, unfold", 0, 1);
    c.io.send(out, c.in->to(rank + 1), c.flow, data);
    while (!c.io.over(out)) co_await c.io.until(out);
  }
}

}  // namespace tandem::detail
