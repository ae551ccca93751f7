#include "algorithms/board.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "algorithms/fold.hpp"

namespace tandem::detail {
namespace {

using sources = std::array<const void*, static_cast<std::size_t>(board::most_ranks)>;

error mismatch(int peer, std::string detail) {
  return error(
      errc::call_mismatch,
      {.peer = peer,
       .rail = {},
       .phase = {},
       .detail = std::move(detail),
       .advice = "make the same call with the same length, type and settings on every rank"});
}

/// What a rank has brought, if it belongs to this call and is as long as it should be.
const std::byte* taken(const call& c, int rank, std::size_t bytes) {
  const board::brought there = c.at_board.of(rank);
  const int peer = c.in->member(rank);
  if (there.note != c.note()) throw mismatch(peer, c.in->difference(c.number(), there.note, peer));
  if (there.bytes == bytes) return there.data;
  throw mismatch(peer, fmt::format("rank {} brought {} bytes where {} were expected", peer,
                                   there.bytes, bytes));
}

/// Neighbours, then pairs, then fours. Needs scratch of as many blocks, but for two.
void combine_pairs(const call& c, sources& from, int count, void* result, std::size_t bytes,
                   const reducer& by) {
  for (int d = 1; d < count; d *= 2) {
    for (int i = 0; i + d < count; i += 2 * d) {
      const auto lower = static_cast<std::size_t>(i), higher = static_cast<std::size_t>(i + d);
      void* const into = 2 * d >= count ? result : c.scratch(lower * bytes, bytes).data;
      by.combine(into, from[lower], from[higher], bytes);
      from[lower] = into;
    }
  }
}

}  // namespace

asio::awaitable<void> board_barrier(call& c) {
  board_visit& at = c.go_to_board();
  while (!at.may_write()) co_await at.wait();
  at.publish(0);
  while (!at.have(0, c.in->size())) co_await at.wait();
  for (int r = 0; r < c.in->size(); ++r) {
    if (r != c.in->rank()) taken(c, r, 0);
  }
}

asio::awaitable<void> board_broadcast(call& c, mutable_view data, int root) {
  board_visit& at = c.go_to_board();
  if (c.in->rank() == root) {
    while (!at.may_write()) co_await at.wait();
    std::memcpy(at.place(), data.data, data.bytes);
    at.publish(data.bytes);
  } else {
    while (!at.have(root, root + 1)) co_await at.wait();
    std::memcpy(data.data, taken(c, root, data.bytes), data.bytes);
  }
}

asio::awaitable<void> board_reduce(call& c, const_view data, mutable_view result, int root,
                                   reducer by) {
  board_visit& at = c.go_to_board();
  const int n = c.in->size();
  while (!at.may_write()) co_await at.wait();
  by.prepare(at.place(), data.data, data.bytes);
  at.publish(data.bytes);
  if (c.in->rank() != root) co_return;
  while (!at.have(0, n)) co_await at.wait();
  sources from{};
  for (int v = 0; v < n; ++v) {
    const int r = around(root, v, n);
    from[static_cast<std::size_t>(v)] = r == root ? at.place() : taken(c, r, data.bytes);
  }
  combine_pairs(c, from, n, result.data, data.bytes, by);
  by.finish(result);
}

asio::awaitable<void> board_all_reduce(call& c, const_view from, mutable_view data, reducer by) {
  board_visit& at = c.go_to_board();
  const int n = c.in->size(), me = c.in->rank();
  while (!at.may_write()) co_await at.wait();
  by.prepare(at.place(), from.data, data.bytes);
  at.publish(data.bytes);
  while (!at.have(0, n)) co_await at.wait();
  const auto of = [&](int r) { return r == me ? at.place() : taken(c, r, data.bytes); };
  const fold as(n, me);
  sources brought{};
  for (int i = 0; i < as.size; ++i) {
    const int lower = as.rank_of(i);
    const void*& item = brought[static_cast<std::size_t>(i)];
    item = of(lower);
    if (i >= as.folded) continue;
    void* const into = c.scratch(static_cast<std::size_t>(i) * data.bytes, data.bytes).data;
    by.combine(into, item, of(lower + 1), data.bytes);
    item = into;
  }
  combine_pairs(c, brought, as.size, data.data, data.bytes, by);
  by.finish(data);
}

asio::awaitable<void> board_reduce_scatter(call& c, const_view all, mutable_view mine, reducer by,
                                           blocks cut) {
  board_visit& at = c.go_to_board();
  const int n = c.in->size(), me = c.in->rank();
  while (!at.may_write()) co_await at.wait();
  by.prepare(at.place(), all.data, all.bytes);
  at.publish(all.bytes);
  while (!at.have(0, n)) co_await at.wait();
  const std::size_t offset = cut.offset(me);
  const void* so_far = taken(c, around(me, 1, n), all.bytes) + offset;
  for (int k = 2; k <= n; ++k) {
    const int r = around(me, k, n);
    const std::byte* const next = r == me ? at.place() : taken(c, r, all.bytes);
    by.combine(mine.data, so_far, next + offset, mine.bytes);
    so_far = mine.data;
  }
  by.finish(mine);
}

asio::awaitable<void> board_all_gather(call& c, const_view mine, mutable_view all, blocks cut) {
  board_visit& at = c.go_to_board();
  const int n = c.in->size(), me = c.in->rank();
  while (!at.may_write()) co_await at.wait();
  std::memcpy(at.place(), mine.data, mine.bytes);
  at.publish(mine.bytes);
  const mutable_view own = cut.in(all, me);
  if (own.data != mine.data) std::memcpy(own.data, mine.data, mine.bytes);
  while (!at.have(0, n)) co_await at.wait();
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    const mutable_view to = cut.in(all, r);
    std::memcpy(to.data, taken(c, r, to.bytes), to.bytes);
  }
}

asio::awaitable<void> board_all_to_all(call& c, const_view from, mutable_view into, blocks cut) {
  board_visit& at = c.go_to_board();
  const int n = c.in->size(), me = c.in->rank();
  while (!at.may_write()) co_await at.wait();
  std::memcpy(at.place(), from.data, from.bytes);
  at.publish(from.bytes);
  const std::size_t each = cut.bytes(me), offset = cut.offset(me);
  std::memcpy(cut.in(into, me).data, cut.in(from, me).data, each);
  while (!at.have(0, n)) co_await at.wait();
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    std::memcpy(cut.in(into, r).data, taken(c, r, from.bytes) + offset, each);
  }
}

}  // namespace tandem::detail
