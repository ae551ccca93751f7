#include <algorithm>
#include <bit>

#include "algorithms.hpp"
#include "arguments.hpp"

namespace tandem {
namespace detail {

asio::awaitable<void> broadcast_tree(call& c, mutable_view data, int root) {
  const int n = c.in->size();
  // Counted from the root, rank v hears from v without its lowest bit and tells v + 1, v + 2, v
  // + 4... below that bit.
  const int v = (c.in->rank() - root + n) % n;
  const int low = v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v;
  if (v != 0) {
    c.at("tree, level", std::popcount(static_cast<unsigned>(v)));
    const int parent = (v - low + root) % n;
    if (!c.in->connected(parent)) co_await c.in->connect(parent);
    transfer& in = c.transfers[0];
    c.io.recv(in, c.in->to(parent), c.flow, data);
    while (!c.io.over(in)) co_await c.io.until(in);
  }
  std::size_t count = 0;
  for (int below = low / 2; below > 0; below /= 2) {
    if (v + below >= n) continue;
    const int child = (v + below + root) % n;
    if (!c.in->connected(child)) co_await c.in->connect(child);
    // The farthest subtree first. More children than transfers: 2^8 ranks and more.
    transfer& out = c.transfers[count++ % call::transfer_count];
    while (!c.io.over(out)) co_await c.io.until(out);
    c.io.send(out, c.in->to(child), c.flow, data);
  }
  for (std::size_t i = 0; i < std::min(count, call::transfer_count); ++i) {
    transfer& out = c.transfers[i];
    while (!c.io.over(out)) co_await c.io.until(out);
  }
}

asio::awaitable<void> broadcast_chain(call& c, mutable_view data, int root) {
  constexpr std::size_t window = 2;
  const int n = c.in->size();
  const int v = (c.in->rank() - root + n) % n;
  const bool receives = v > 0;
  const bool sends = v + 1 < n;
  const int before = (c.in->rank() + n - 1) % n;
  const int after = (c.in->rank() + 1) % n;
  if (receives && !c.in->connected(before)) co_await c.in->connect(before);
  if (sends && !c.in->connected(after)) co_await c.in->connect(after);

  const std::size_t chunk_bytes = c.in->chunk_bytes();
  const std::size_t chunks = (data.bytes + chunk_bytes - 1) / chunk_bytes;
  const auto chunk = [data, chunk_bytes](std::size_t i) {
    const std::size_t first = i * chunk_bytes;
    return data.part(first, std::min(chunk_bytes, data.bytes - first));
  };
  if (receives) {
    for (std::size_t i = 0; i < std::min(window, chunks); ++i) {
      c.io.recv(c.transfers[i], c.in->to(before), c.flow, chunk(i));
    }
  }
  for (std::size_t i = 0; i < chunks; ++i) {
    c.at("chain", static_cast<int>(i), static_cast<int>(chunks));
    transfer& in = c.transfers[i % window];
    transfer& out = c.transfers[window + i % window];
    while (!c.io.over(in)) co_await c.io.until(in);
    while (!c.io.over(out)) co_await c.io.until(out);
    if (receives && i + window < chunks) {
      c.io.recv(in, c.in->to(before), c.flow, chunk(i + window));
    }
    if (sends) c.io.send(out, c.in->to(after), c.flow, chunk(i));
  }
  for (std::size_t i = 0; i < window; ++i) {
    transfer& out = c.transfers[window + i];
    while (!c.io.over(out)) co_await c.io.until(out);
  }
}

}  // namespace detail

bool broadcast_takes_chain(int ranks, std::size_t bytes, std::size_t chunk_bytes) noexcept {
  if (ranks < 3) return false;
  const std::size_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const auto levels = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  return static_cast<std::size_t>(ranks - 2) < chunks * (levels - 1);
}

asio::awaitable<void> broadcast(communicator& among, mutable_view data, int root) {
  const std::shared_ptr<detail::group>& g = among.internals();
  if (auto wrong = detail::wrong_root(*g, "broadcast", root)) return detail::refuse(*wrong);
  if (auto wrong = detail::wrong_memory("broadcast", data)) return detail::refuse(*wrong);
  if (data.bytes == 0 || g->size() == 1) return detail::nothing(g);
  detail::lease place(g, "broadcast");
  detail::call& c = *place;
  if (broadcast_takes_chain(g->size(), data.bytes, g->chunk_bytes())) {
    return detail::carry_out(std::move(place), detail::broadcast_chain(c, data, root));
  }
  return detail::carry_out(std::move(place), detail::broadcast_tree(c, data, root));
}

}  // namespace tandem
