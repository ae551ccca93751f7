#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "partition/fold.hpp"

namespace tandem::detail {
namespace {

/// The root's messages, one to or from each rank, as many at once as the call has transfers.
asio::awaitable<void> with_each(call& c, const_view from, mutable_view into, blocks cut) {
  constexpr std::size_t window = call::transfer_count;
  std::size_t count = 0;
  for (int peer = 0; peer < c.in->size(); ++peer) {
    if (peer == c.in->rank() || cut.bytes(peer) == 0) continue;
    c.at("with rank", peer);
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
    transfer& one = c.transfers[count++ % window];
    while (!c.io.over(one)) co_await c.io.until(one);
    if (into.bytes > 0) {
      c.io.recv(one, c.in->to(peer), c.flow, cut.in(into, peer));
    } else {
      c.io.send(one, c.in->to(peer), c.flow, cut.in(from, peer));
    }
  }
  for (std::size_t i = 0; i < std::min(count, window); ++i) {
    transfer& one = c.transfers[i];
    while (!c.io.over(one)) co_await c.io.until(one);
  }
}

}  // namespace

asio::awaitable<void> direct_gather(call& c, const_view mine, mutable_view all, blocks cut,
                                    int root) {
  if (c.in->rank() == root) {
    c.copy(cut.in(all, root), mine);
    const const_view no_send;
    co_await with_each(c, no_send, all, std::move(cut));
    co_return;
  }
  c.at("with rank", root);
  if (mine.bytes > 0) co_await send_to(c, root, mine);
}

asio::awaitable<void> direct_scatter(call& c, const_view all, mutable_view mine, blocks cut,
                                     int root) {
  if (c.in->rank() == root) {
    c.copy(mine, cut.in(all, root));
    const mutable_view no_recv;
    co_await with_each(c, all, no_recv, std::move(cut));
    co_return;
  }
  c.at("with rank", root);
  if (mine.bytes > 0) co_await recv_from(c, root, mine);
}

asio::awaitable<void> direct_all_reduce(call& c, const_view from, mutable_view data, reducer by) {
  const int n = c.in->size();
  const fold as(n, c.in->rank());
  const blocks cut(data.bytes, n);
  const mutable_view all = c.scratch(0, cut.total());
  const mutable_view own = cut.in(all, c.in->rank());
  by.prepare(own.data, from.data, own.bytes);
  if (c.outstanding()) co_await c.synchronize();
  co_await send_to_all(c, own, all, cut);
  join_folded(as, [&](int lower, int higher, bool is_last) {
    const mutable_view before = cut.in(all, lower);
    by.combine(is_last ? data.data : before.data, before.data, cut.in(all, higher).data,
               data.bytes);
  });
  by.finish(data);
}

asio::awaitable<void> single_rank(std::shared_ptr<group> in, const_view from, mutable_view into) {
  co_await empty_call(in);
  device_queue* const queue = in->queue_for(into);
  copy_block(queue, into, from);
  if (queue != nullptr && queue->pending()) co_await queue->synchronize();
}

asio::awaitable<void> single_rank(std::shared_ptr<group> in, const_view from, mutable_view into,
                                  reducer by) {
  co_await empty_call(in);
  device_queue* const queue = in->queue_for(into);
  by.prepare(into.data, from.data, from.bytes);
  if (queue != nullptr && queue->pending()) co_await queue->synchronize();
}

}  // namespace tandem::detail
