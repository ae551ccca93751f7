#include <algorithm>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {
namespace {

/// Sends block i of `from` to rank i, or all of `from` to every rank if there is only one block.
asio::awaitable<void> exchange_blocks(call& c, const_view from, blocks sent, mutable_view into,
                                      blocks received, std::size_t window) {
  const int n = c.in->size();
  const int rank = c.in->rank();
  const auto start = [&](int distance) {
    const int ahead = around(rank, distance, n);
    const int behind = around(rank, -distance, n);
    const std::size_t slot = static_cast<std::size_t>(distance - 1) % window;
    const mutable_view recv_view = received.in(into, behind);
    const const_view send_view = sent.ranks() == 1 ? from : sent.in(from, ahead);
    if (recv_view.bytes > 0) c.io.recv(c.transfers[slot], c.in->to(behind), c.flow, recv_view);
    if (send_view.bytes > 0) {
      c.io.send(c.transfers[window + slot], c.in->to(ahead), c.flow, send_view);
    }
  };
  for (int distance = 1; distance < n; ++distance) {
    const int peer = around(rank, distance, n);
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
  }
  const int at_once = static_cast<int>(window);
  for (int distance = 1; distance < std::min(n, at_once + 1); ++distance) start(distance);
  for (int distance = 1; distance < n; ++distance) {
    c.at("exchange", distance - 1, n - 1);
    const std::size_t slot = static_cast<std::size_t>(distance - 1) % window;
    transfer& in = c.transfers[slot];
    transfer& out = c.transfers[window + slot];
    while (!c.io.over(in)) co_await c.io.until(in);
    while (!c.io.over(out)) co_await c.io.until(out);
    if (distance + at_once < n) start(distance + at_once);
  }
}

}  // namespace

asio::awaitable<void> exchange_with_all(call& c, const_view from, blocks sent, mutable_view into,
                                        blocks received, std::size_t window) {
  const int rank = c.in->rank();
  c.copy(received.in(into, rank), sent.in(from, rank));
  return exchange_blocks(c, from, std::move(sent), into, std::move(received), window);
}

asio::awaitable<void> send_to_all(call& c, const_view mine, mutable_view all, blocks cut) {
  blocks only(mine.bytes, 1);
  return exchange_blocks(c, mine, std::move(only), all, std::move(cut), direct_window);
}

asio::awaitable<void> direct_all_gather(call& c, const_view mine, mutable_view all, blocks cut) {
  c.copy(cut.in(all, c.in->rank()), mine);
  return send_to_all(c, mine, all, std::move(cut));
}

}  // namespace tandem::detail
