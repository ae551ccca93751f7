#include <algorithm>
#include <bit>
#include <cstring>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {

namespace {

/// Two ranks need not turn anything.
asio::awaitable<void> swap_blocks(call& c, const_view mine, mutable_view all, blocks cut) {
  const int other = 1 - c.in->rank();
  c.at("bruck", 0, 1);
  put_own(mine, cut.in(all, c.in->rank()));
  if (!c.in->connected(other)) co_await c.in->connect(other);
  const link there = c.in->to(other);
  const mutable_view theirs = cut.in(all, other);
  co_await exchange(c, there, mine, there, theirs);
}

}  // namespace

asio::awaitable<void> bruck_all_gather(call& c, const_view mine, mutable_view all, blocks cut) {
  const int n = c.in->size();
  if (n == 2) {
    co_await swap_blocks(c, mine, all, std::move(cut));
    co_return;
  }
  const int rank = c.in->rank();
  // Block j of the scratch is that of the rank j ahead, so what was gathered is one stretch.
  const auto filled = [&](int count) {
    const int end = rank + count;
    if (end <= n) return cut.offset(end) - cut.offset(rank);
    return cut.total() - cut.offset(rank) + cut.offset(end - n);
  };
  const auto ahead_of = [&](int peer, int count) {
    const int end = peer + count;
    if (end <= n) return cut.offset(end) - cut.offset(peer);
    return cut.total() - cut.offset(peer) + cut.offset(end - n);
  };
  const mutable_view turned{c.scratch(), cut.total()};
  put_own(mine, turned.part(0, mine.bytes));
  const int rounds = std::bit_width(static_cast<unsigned>(n - 1));
  for (int round = 0; round < rounds; ++round) {
    c.at("bruck", round, rounds);
    const int distance = 1 << round;
    const int count = std::min(distance, n - distance);
    const int from = around(rank, distance, n);
    const int to = around(rank, -distance, n);
    if (!c.in->connected(to)) co_await c.in->connect(to);
    if (!c.in->connected(from)) co_await c.in->connect(from);
    const const_view given = turned.part(0, filled(count));
    const mutable_view got = turned.part(filled(distance), ahead_of(from, count));
    const link forward = c.in->to(to);
    const link backward = c.in->to(from);
    co_await exchange(c, forward, given, backward, got);
  }
  const std::size_t to_end = cut.total() - cut.offset(rank);
  if (to_end > 0) std::memcpy(all.part(cut.offset(rank), to_end).data, turned.data, to_end);
  const std::size_t rest = cut.offset(rank);
  if (rest > 0) std::memcpy(all.data, turned.part(to_end, rest).data, rest);
}

}  // namespace tandem::detail
