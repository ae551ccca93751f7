#include <algorithm>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> chain_broadcast(call& c, mutable_view data, int root,
                                      std::size_t chunk_bytes) {
  constexpr std::size_t window = chain_window;
  const int n = c.in->size();
  const int v = (c.in->rank() - root + n) % n;
  const bool receives = v > 0;
  const bool sends = v + 1 < n;
  const int before = (c.in->rank() + n - 1) % n;
  const int after = (c.in->rank() + 1) % n;
  if (receives && !c.in->connected(before)) co_await c.in->connect(before);
  if (sends && !c.in->connected(after)) co_await c.in->connect(after);

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

}  // namespace tandem::detail
