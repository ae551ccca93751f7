#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "arguments.hpp"
#include "call.hpp"

namespace tandem {
namespace {

/// Receives from one rank after the other, as many at once as there are transfers.
asio::awaitable<void> collect(detail::call& c, const_view mine, mutable_view all) {
  constexpr std::size_t window = detail::call::transfer_count;
  const int n = c.in->size();
  std::memcpy(all.part(static_cast<std::size_t>(c.in->rank()) * mine.bytes, mine.bytes).data,
              mine.data, mine.bytes);
  std::size_t count = 0;
  for (int peer = 0; peer < n; ++peer) {
    if (peer == c.in->rank()) continue;
    c.at("from rank", peer);
    if (!c.in->connected(peer)) co_await c.in->connect(peer);
    detail::transfer& in = c.transfers[count++ % window];
    while (!c.io.over(in)) co_await c.io.until(in);
    c.io.recv(in, c.in->to(peer), c.flow,
              all.part(static_cast<std::size_t>(peer) * mine.bytes, mine.bytes));
  }
  for (std::size_t i = 0; i < std::min(count, window); ++i) {
    detail::transfer& in = c.transfers[i];
    while (!c.io.over(in)) co_await c.io.until(in);
  }
}

asio::awaitable<void> hand_in(detail::call& c, const_view mine, int root) {
  c.at("to rank", root);
  if (!c.in->connected(root)) co_await c.in->connect(root);
  detail::transfer& out = c.transfers[0];
  c.io.send(out, c.in->to(root), c.flow, mine);
  while (!c.io.over(out)) co_await c.io.until(out);
}

}  // namespace

asio::awaitable<void> gather(communicator& among, const_view mine, mutable_view all, int root) {
  const std::shared_ptr<detail::group>& g = among.internals();
  if (auto wrong = detail::wrong_root(*g, "gather", root)) return detail::refuse(*wrong);
  if (auto wrong = detail::wrong_memory("gather", mine)) return detail::refuse(*wrong);
  const bool collects = g->rank() == root;
  if (collects) {
    if (auto wrong = detail::wrong_memory("gather", all)) return detail::refuse(*wrong);
    const std::size_t needed = mine.bytes * static_cast<std::size_t>(g->size());
    if (all.bytes != needed) {
      return detail::refuse(error(
          errc::bad_input, fmt::format("gather: {} ranks with {} bytes each fill {} bytes, not {}",
                                       g->size(), mine.bytes, needed, all.bytes)));
    }
  }
  if (mine.bytes == 0) return detail::nothing(g);
  detail::lease place(g, "gather");
  detail::call& c = *place;
  if (collects) return detail::carry_out(std::move(place), collect(c, mine, all));
  return detail::carry_out(std::move(place), hand_in(c, mine, root));
}

}  // namespace tandem
