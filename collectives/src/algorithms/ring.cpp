#include "algorithms/ring.hpp"

#include <algorithm>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {
namespace {

/// Segments are not cut into pieces below this length, whose fixed cost would dominate.
constexpr std::size_t min_piece_bytes = 64 * 1024;

std::size_t divide_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

}  // namespace

ring_cut::ring_cut(blocks into, std::size_t element_bytes, std::size_t max_bytes)
    : segments(std::move(into)) {
  const std::size_t longest = segments.longest() / element_bytes;
  // At least two chunks if they are long enough, so that one is combined while the next is in
  // flight.
  const std::size_t least = segments.longest() >= 2 * min_piece_bytes ? 2 : 1;
  const std::size_t most = std::max<std::size_t>(max_bytes / element_bytes, 1);
  chunks = std::max(divide_up(longest, most), least);
  chunk_bytes = divide_up(longest, chunks) * element_bytes;
}

extent ring_cut::piece(int segment, std::size_t chunk) const noexcept {
  const extent full = segments.at(segment);
  const std::size_t from = std::min(chunk * chunk_bytes, full.bytes);
  const std::size_t to = std::min(from + chunk_bytes, full.bytes);
  return {full.offset + from, to - from};
}

ring_walk::ring_walk(part of, const ring_cut& cut, int rank) noexcept
    : cut_(cut),
      first_(of == part::reduce_scatter ? around(rank, -1, cut.segments.ranks()) : rank),
      steps_((of == part::all_reduce ? 2 : 1) * (cut.segments.ranks() - 1)),
      combining_(of == part::all_gather ? 0 : cut.segments.ranks() - 1),
      batch_(std::min(window, cut.chunks)),
      pieces_(divide_up(cut.chunks, batch_) * batch_ * static_cast<std::size_t>(steps_)) {}

extent ring_walk::where(std::size_t piece, int back) const noexcept {
  const int n = cut_.segments.ranks();
  const std::size_t round = batch_ * static_cast<std::size_t>(steps_);
  const std::size_t chunk = piece / round * batch_ + piece % batch_;
  // The last batch may have fewer chunks; the missing ones have empty pieces.
  return cut_.piece(around(first_, back % n, n), chunk);
}

namespace {

/// The links to both neighbours, and the transfers with them.
struct neighbours {
  neighbours(call& of, peer_channel right, peer_channel left) : c(of), to(right), from(left) {}

  transfer& in(std::size_t piece) const { return c.transfers[piece % ring_walk::window]; }
  transfer& out(std::size_t piece) const {
    return c.transfers[ring_walk::window + piece % ring_walk::window];
  }
  // Empty pieces are not sent: both ends know which are empty.
  void recv(std::size_t piece, mutable_view into) const {
    if (into.bytes > 0) c.io.recv(in(piece), from, c.flow, into);
  }
  void send(std::size_t piece, const_view what) const {
    if (what.bytes > 0) c.io.send(out(piece), to, c.flow, what);
  }

  call& c;
  const peer_channel to, from;
};

asio::awaitable<void> connect_neighbours(call& c) {
  const int right = around(c.in->rank(), 1, c.in->size());
  const int left = around(c.in->rank(), -1, c.in->size());
  if (!c.in->connected(right)) co_await c.in->connect(right);
  if (!c.in->connected(left)) co_await c.in->connect(left);
}

neighbours neighbours_of(call& c) {
  return {c, c.in->to(around(c.in->rank(), 1, c.in->size())),
          c.in->to(around(c.in->rank(), -1, c.in->size()))};
}

/// Pieces that are one batch apart use the same transfers.
std::size_t slot(const ring_walk& walk, std::size_t piece) {
  return piece % walk.batch();
}

}  // namespace

asio::awaitable<void> ring_all_reduce(call& c, const_view from, mutable_view data, reducer by,
                                      ring_cut cut) {
  co_await connect_neighbours(c);
  if (c.outstanding()) co_await c.synchronize();
  const neighbours neighbour_io = neighbours_of(c);
  const ring_walk walk(ring_walk::part::all_reduce, cut, c.in->rank());
  const auto recv_view = [&](std::size_t piece) -> mutable_view {
    const extent position = walk.received(piece);
    if (!walk.combines(piece)) return at(data, position);
    return c.scratch(slot(walk, piece) * cut.chunk_bytes, position.bytes);
  };
  const auto send_view = [&](std::size_t piece) -> const_view {
    const extent position = walk.sent(piece);
    if (walk.step(piece) > 0 || !by.prepares()) {
      return walk.step(piece) > 0 ? const_view(at(data, position)) : at(from, position);
    }
    by.prepare(at(data, position).data, at(from, position).data, position.bytes);
    return at(data, position);
  };
  for (std::size_t i = 0; i < walk.batch(); ++i) neighbour_io.recv(i, recv_view(i));
  for (std::size_t i = 0; i < walk.batch(); ++i) {
    const const_view what = send_view(i);
    if (c.outstanding()) co_await c.synchronize();
    neighbour_io.send(i, what);
  }
  for (std::size_t i = 0; i < walk.pieces(); ++i) {
    c.at("ring", walk.step(i), walk.steps());
    transfer& in = neighbour_io.in(slot(walk, i));
    while (!c.io.over(in)) co_await c.io.until(in);
    if (walk.combines(i)) {
      const mutable_view own = at(data, walk.received(i));
      const void* contribution = at(from, walk.received(i)).data;
      if (by.prepares()) {
        by.prepare(own.data, contribution, own.bytes);
        contribution = own.data;
      }
      by.combine(own.data, recv_view(i).data, contribution, own.bytes);
      if (walk.finishes(i)) by.finish(own);
    }
    transfer& out = neighbour_io.out(slot(walk, i));
    while (!c.io.over(out)) co_await c.io.until(out);
    const std::size_t next = i + walk.batch();
    if (next >= walk.pieces()) continue;
    if (c.outstanding()) co_await c.synchronize();
    neighbour_io.recv(slot(walk, next), recv_view(next));
    const const_view what = send_view(next);
    if (c.outstanding()) co_await c.synchronize();
    neighbour_io.send(slot(walk, next), what);
  }
}

asio::awaitable<void> ring_all_gather(call& c, const_view mine, mutable_view all, ring_cut cut) {
  c.copy(cut.segments.in(all, c.in->rank()), mine);
  co_await connect_neighbours(c);
  if (c.outstanding()) co_await c.synchronize();
  const neighbours neighbour_io = neighbours_of(c);
  const ring_walk walk(ring_walk::part::all_gather, cut, c.in->rank());
  for (std::size_t i = 0; i < walk.batch(); ++i) neighbour_io.recv(i, at(all, walk.received(i)));
  for (std::size_t i = 0; i < walk.batch(); ++i) neighbour_io.send(i, at(all, walk.sent(i)));
  for (std::size_t i = 0; i < walk.pieces(); ++i) {
    c.at("ring", walk.step(i), walk.steps());
    transfer& in = neighbour_io.in(slot(walk, i));
    transfer& out = neighbour_io.out(slot(walk, i));
    while (!c.io.over(in)) co_await c.io.until(in);
    while (!c.io.over(out)) co_await c.io.until(out);
    const std::size_t next = i + walk.batch();
    if (next >= walk.pieces()) continue;
    neighbour_io.recv(slot(walk, next), at(all, walk.received(next)));
    neighbour_io.send(slot(walk, next), at(all, walk.sent(next)));
  }
}

asio::awaitable<void> ring_reduce_scatter(call& c, const_view all, mutable_view mine, reducer by,
                                          ring_cut cut) {
  co_await connect_neighbours(c);
  if (c.outstanding()) co_await c.synchronize();
  const neighbours neighbour_io = neighbours_of(c);
  const ring_walk walk(ring_walk::part::reduce_scatter, cut, c.in->rank());
  // A received piece is combined where it was received and sent from there in the next step, so
  // scratch of two steps is needed, and a third for this rank's prepared data: for the pieces being
  // combined, or for the messages of the first step.
  const auto recv_view = [&](std::size_t piece) -> mutable_view {
    const std::size_t of_step = walk.step(piece) % 2 == 0 ? 0 : walk.batch();
    const std::size_t position = of_step + slot(walk, piece);
    return c.scratch(position * cut.chunk_bytes, walk.received(piece).bytes);
  };
  const auto contribution = [&](std::size_t piece, extent where) -> const_view {
    if (!by.prepares()) return at(all, where);
    const std::size_t position = 2 * walk.batch() + slot(walk, piece);
    const mutable_view prepared = c.scratch(position * cut.chunk_bytes, where.bytes);
    by.prepare(prepared.data, at(all, where).data, where.bytes);
    return prepared;
  };
  const auto send_view = [&](std::size_t piece) -> const_view {
    if (walk.step(piece) == 0) return contribution(piece, walk.sent(piece));
    return recv_view(piece - walk.batch());
  };
  const std::size_t first = cut.segments.offset(c.in->rank());
  for (std::size_t i = 0; i < walk.batch(); ++i) neighbour_io.recv(i, recv_view(i));
  for (std::size_t i = 0; i < walk.batch(); ++i) {
    const const_view what = send_view(i);
    if (c.outstanding()) co_await c.synchronize();
    neighbour_io.send(i, what);
  }
  for (std::size_t i = 0; i < walk.pieces(); ++i) {
    c.at("ring", walk.step(i), walk.steps());
    transfer& in = neighbour_io.in(slot(walk, i));
    transfer& out = neighbour_io.out(slot(walk, i));
    while (!c.io.over(in)) co_await c.io.until(in);
    while (!c.io.over(out)) co_await c.io.until(out);
    const extent where = walk.received(i);
    const mutable_view running = recv_view(i);
    const mutable_view result = walk.finishes(i) && where.bytes > 0
                                    ? mine.part(where.offset - first, where.bytes)
                                    : running;
    by.combine(result.data, running.data, contribution(i, where).data, where.bytes);
    if (walk.finishes(i)) by.finish(result);
    const std::size_t next = i + walk.batch();
    if (next >= walk.pieces()) continue;
    if (c.outstanding()) co_await c.synchronize();
    neighbour_io.recv(slot(walk, next), recv_view(next));
    const const_view what = send_view(next);
    if (c.outstanding()) co_await c.synchronize();
    neighbour_io.send(slot(walk, next), what);
  }
}

}  // namespace tandem::detail
