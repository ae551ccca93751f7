#include <algorithm>
#include <bit>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> tree_broadcast(call& c, mutable_view data, int root) {
  const int n = c.in->size();
  // Counted from the root, rank v receives from v without its lowest bit, and sends to v + 1, v +
  // 2, v + 4... below that bit.
  const int v = (c.in->rank() - root + n) % n;
  const int low = v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : v & -v;
  if (v != 0) {
    c.at("tree, level", std::popcount(static_cast<unsigned>(v)));
    const int parent = (v - low + root) % n;
    if (!received(c, parent, data)) co_await recv_from(c, parent, data);
  }
  std::size_t count = 0;
  for (int below = low / 2; below > 0; below /= 2) {
    if (v + below >= n) continue;
    const int child = (v + below + root) % n;
    if (!c.in->connected(child)) co_await c.in->connect(child);
    // The farthest subtree first. From 2^8 ranks on there can be more children than transfers.
    transfer& out = c.transfers[count++ % call::transfer_count];
    while (!c.io.over(out)) co_await c.io.until(out);
    c.io.send(out, c.in->to(child), c.flow, data);
  }
  for (std::size_t i = 0; i < std::min(count, call::transfer_count); ++i) {
    transfer& out = c.transfers[i];
    while (!c.io.over(out)) co_await c.io.until(out);
  }
}

}  // namespace tandem::detail
