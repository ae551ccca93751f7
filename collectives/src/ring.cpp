#include <algorithm>

#include "algorithms.hpp"

namespace tandem::detail {
namespace {

/// A shorter message than this costs about as much as it carries, so a segment is not cut below it.
constexpr std::size_t least_piece_bytes = 64 * 1024;

std::size_t divide_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

/// One rank's way around the ring as one sequence of pieces, `cut.chunks` to a step. What is sent
/// as piece i was received as piece i - chunks. In the first half of the steps pieces are combined,
/// in the second they come to their place as they are.
struct way_around {
  const ring_cut cut;
  const mutable_view data;
  std::byte* const scratch;
  const int rank;

  std::size_t combining() const { return static_cast<std::size_t>(cut.ranks - 1) * cut.chunks; }
  std::size_t pieces() const { return 2 * combining(); }

  mutable_view sent(std::size_t piece) const {
    const int step = static_cast<int>(piece / cut.chunks);
    return cut.piece(data, (rank - step + 2 * cut.ranks) % cut.ranks, piece % cut.chunks);
  }
  /// What comes in at a step goes out at the next.
  mutable_view place(std::size_t piece) const { return sent(piece + cut.chunks); }
  mutable_view landing(std::size_t piece) const {
    const mutable_view own = place(piece);
    if (piece >= combining()) return own;
    return {scratch + piece % ring_window * cut.longest_bytes(), own.bytes};
  }
};

}  // namespace

ring_cut::ring_cut(std::size_t data_bytes, std::size_t bytes_each, int rank_count,
                   std::size_t chunk_bytes)
    : elements(data_bytes / bytes_each), element_bytes(bytes_each), ranks(rank_count) {
  const std::size_t longest_segment = divide_up(elements, static_cast<std::size_t>(ranks));
  // Two chunks at least where they are worth it, so that one is combined while the other travels.
  const std::size_t least = longest_segment * element_bytes >= 2 * least_piece_bytes ? 2 : 1;
  const std::size_t most_elements = std::max<std::size_t>(chunk_bytes / element_bytes, 1);
  chunks = std::max(divide_up(longest_segment, most_elements), least);
  chunk_elements = divide_up(longest_segment, chunks);
}

mutable_view ring_cut::piece(mutable_view data, int segment, std::size_t chunk) const noexcept {
  const auto s = static_cast<std::size_t>(segment);
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t end = elements * (s + 1) / n;
  const std::size_t from = std::min(elements * s / n + chunk * chunk_elements, end);
  const std::size_t to = std::min(from + chunk_elements, end);
  return data.part(from * element_bytes, (to - from) * element_bytes);
}

asio::awaitable<void> ring(call& c, mutable_view data, reducer by, ring_cut cut) {
  const int n = c.in->size();
  const way_around way{cut, data, c.scratch(), c.in->rank()};
  const int right = (way.rank + 1) % n;
  const int left = (way.rank + n - 1) % n;
  if (!c.in->connected(right)) co_await c.in->connect(right);
  if (!c.in->connected(left)) co_await c.in->connect(left);
  const link to = c.in->to(right);
  const link from = c.in->to(left);

  // Nothing is received into a place that is still being sent from, nor sent before it has come.
  const std::size_t receives_ahead = std::min(ring_window, way.combining());
  const std::size_t sends_ahead = std::min(ring_window, cut.chunks);
  transfer* const ins = c.transfers.data();
  transfer* const outs = ins + ring_window;
  for (std::size_t i = 0; i < receives_ahead; ++i) c.io.recv(ins[i], from, c.flow, way.landing(i));
  for (std::size_t i = 0; i < cut.chunks; ++i) by.prepare(way.sent(i));
  for (std::size_t i = 0; i < sends_ahead; ++i) c.io.send(outs[i], to, c.flow, way.sent(i));

  for (std::size_t i = 0; i < way.pieces(); ++i) {
    c.at("ring", static_cast<int>(i / cut.chunks), 2 * (n - 1));
    transfer& in = ins[i % receives_ahead];
    while (!c.io.over(in)) co_await c.io.until(in);
    if (i < way.combining()) {
      const mutable_view own = way.place(i);
      by.prepare(own);
      by.combine_before(own.data, in.view.data, own.bytes);
      if (i >= way.combining() - cut.chunks) by.finish(own);
    }
    transfer& out = outs[i % sends_ahead];
    while (!c.io.over(out)) co_await c.io.until(out);
    const std::size_t next_in = i + receives_ahead;
    if (next_in < way.pieces()) c.io.recv(in, from, c.flow, way.landing(next_in));
    const std::size_t next_out = i + sends_ahead;
    if (next_out < way.pieces()) c.io.send(out, to, c.flow, way.sent(next_out));
  }
}

}  // namespace tandem::detail
