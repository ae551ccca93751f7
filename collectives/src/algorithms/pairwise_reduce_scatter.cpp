#include <algorithm>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {
namespace {

/// The sequence of pieces: chunk after chunk, and for each chunk one piece to and from every other
/// rank.
struct round_of_pieces {
  round_of_pieces(const ring_cut& by, int at, int size) : cut(by), rank(at), ranks(size) {}

  std::size_t pieces() const { return cut.chunks * static_cast<std::size_t>(ranks - 1); }
  std::size_t chunk(std::size_t piece) const { return piece / static_cast<std::size_t>(ranks - 1); }
  /// Distance to the rank that the piece comes from: 1 to ranks - 1.
  int ahead(std::size_t piece) const {
    return static_cast<int>(piece % static_cast<std::size_t>(ranks - 1)) + 1;
  }
  int from(std::size_t piece) const { return around(rank, ahead(piece), ranks); }
  int to(std::size_t piece) const { return around(rank, -ahead(piece), ranks); }
  extent received(std::size_t piece) const { return cut.piece(rank, chunk(piece)); }
  extent sent(std::size_t piece) const { return cut.piece(to(piece), chunk(piece)); }

  const ring_cut& cut;
  int rank, ranks;
};

}  // namespace

asio::awaitable<void> pairwise_reduce_scatter(call& c, const_view all, mutable_view mine,
                                              reducer by, ring_cut cut) {
  constexpr std::size_t window = direct_window;
  const int n = c.in->size();
  const round_of_pieces walk(cut, c.in->rank(), n);
  for (int i = 1; i < n; ++i) {
    const int peer = around(walk.rank, i, n);
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
  }
  const auto scratch_slot = [&](std::size_t i, std::size_t bytes) -> mutable_view {
    return c.scratch(i * cut.chunk_bytes, bytes);
  };
  const auto recv = [&](std::size_t piece) {
    const std::size_t bytes = walk.received(piece).bytes;
    if (bytes == 0) return;
    c.io.recv(c.transfers[piece % window], c.in->to(walk.from(piece)), c.flow,
              scratch_slot(piece % window, bytes));
  };
  const auto send_view = [&](std::size_t piece) {
    const const_view what = at(all, walk.sent(piece));
    if (what.bytes == 0 || !by.prepares()) return what;
    const mutable_view prepared = scratch_slot(window + piece % window, what.bytes);
    by.prepare(prepared.data, what.data, what.bytes);
    return const_view(prepared);
  };
  const auto send = [&](std::size_t piece, const_view what) {
    if (what.bytes == 0) return;
    c.io.send(c.transfers[window + piece % window], c.in->to(walk.to(piece)), c.flow, what);
  };
  for (std::size_t i = 0; i < std::min(window, walk.pieces()); ++i) recv(i);
  for (std::size_t i = 0; i < std::min(window, walk.pieces()); ++i) {
    const const_view what = send_view(i);
    if (c.outstanding()) co_await c.synchronize();
    send(i, what);
  }
  const mutable_view running = scratch_slot(2 * window, cut.chunk_bytes);
  const std::size_t first = cut.segments.offset(walk.rank);
  for (std::size_t i = 0; i < walk.pieces(); ++i) {
    c.at("pairwise", static_cast<int>(i), static_cast<int>(walk.pieces()));
    transfer& in = c.transfers[i % window];
    transfer& out = c.transfers[window + i % window];
    while (!c.io.over(in)) co_await c.io.until(in);
    while (!c.io.over(out)) co_await c.io.until(out);
    const extent where = walk.received(i);
    if (where.bytes > 0) {
      const void* last = scratch_slot(i % window, where.bytes).data;
      if (walk.ahead(i) == 1 && n > 2) {
        c.copy(running.part(0, where.bytes), scratch_slot(i % window, where.bytes));
      } else if (walk.ahead(i) > 1) {
        by.combine_after(running.data, last, where.bytes);
        last = running.data;
      }
      if (walk.ahead(i) == n - 1) {
        const mutable_view result = mine.part(where.offset - first, where.bytes);
        const void* own = at(all, where).data;
        if (by.prepares()) {
          by.prepare(result.data, own, where.bytes);
          own = result.data;
        }
        by.combine(result.data, last, own, where.bytes);
        by.finish(result);
      }
    }
    if (i + window >= walk.pieces()) continue;
    if (c.outstanding()) co_await c.synchronize();
    recv(i + window);
    const const_view what = send_view(i + window);
    if (c.outstanding()) co_await c.synchronize();
    send(i + window, what);
  }
}

}  // namespace tandem::detail
