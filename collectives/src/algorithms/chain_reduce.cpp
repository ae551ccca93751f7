#include <algorithm>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> chain_reduce(call& c, const_view data, mutable_view result, int root,
                                   reducer by, std::size_t chunk_bytes) {
  constexpr std::size_t window = chain_window;
  const int n = c.in->size();
  const int v = around(c.in->rank(), -root, n);
  const bool receives = v + 1 < n;
  const bool sends = v > 0;
  const int ahead = around(c.in->rank(), 1, n);
  const int behind = around(c.in->rank(), -1, n);
  if (receives && !c.in->connected(ahead)) co_await c.in->connect(ahead);
  if (sends && !c.in->connected(behind)) co_await c.in->connect(behind);
  if (c.outstanding()) co_await c.synchronize();

  const std::size_t element_size = by.element_bytes();
  const std::size_t longest = std::max(chunk_bytes / element_size, std::size_t{1}) * element_size;
  const std::size_t chunks = (data.bytes + longest - 1) / longest;
  const auto part = [&](std::size_t i) -> extent {
    return {i * longest, std::min(longest, data.bytes - i * longest)};
  };
  const auto scratch_slot = [&](std::size_t i, std::size_t bytes) -> mutable_view {
    return c.scratch(i * longest, bytes);
  };
  for (std::size_t i = 0; receives && i < std::min(window, chunks); ++i) {
    c.io.recv(c.transfers[i], c.in->to(ahead), c.flow, scratch_slot(i, part(i).bytes));
  }
  for (std::size_t i = 0; i < chunks; ++i) {
    c.at("chain", static_cast<int>(i), static_cast<int>(chunks));
    transfer& in = c.transfers[i % window];
    transfer& out = c.transfers[window + i % window];
    while (!c.io.over(in)) co_await c.io.until(in);
    while (!c.io.over(out)) co_await c.io.until(out);
    const extent here = part(i);
    const mutable_view mine =
        sends ? scratch_slot(window + i % window, here.bytes) : at(result, here);
    by.prepare(mine.data, at(data, here).data, here.bytes);
    if (receives)
      by.combine_after(mine.data, scratch_slot(i % window, here.bytes).data, here.bytes);
    if (!sends) by.finish(mine);
    if (c.outstanding()) co_await c.synchronize();
    if (receives && i + window < chunks) {
      const mutable_view next = scratch_slot(i % window, part(i + window).bytes);
      c.io.recv(in, c.in->to(ahead), c.flow, next);
    }
    if (sends) c.io.send(out, c.in->to(behind), c.flow, mine);
  }
  for (std::size_t i = 0; i < window; ++i) {
    transfer& out = c.transfers[window + i];
    while (!c.io.over(out)) co_await c.io.until(out);
  }
}

}  // namespace tandem::detail
