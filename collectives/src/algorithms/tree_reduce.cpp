#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> tree_reduce(call& c, const_view data, mutable_view result, int root,
                                  reducer by) {
  const int n = c.in->size();
  // Counted from the root, rank v combines the results of v + 1, v + 2, v + 4... below its lowest
  // bit, and then sends its result to v without that bit.
  const int v = around(c.in->rank(), -root, n);
  const mutable_view theirs = c.scratch(0, data.bytes);
  const mutable_view mine = v == 0 ? result : c.scratch(data.bytes, data.bytes);
  by.prepare(mine.data, data.data, data.bytes);
  int bit = 1;
  for (; bit < n && (v & bit) == 0; bit *= 2) {
    if (v + bit >= n) continue;
    const int child = around(v + bit, root, n);
    c.at("tree, from rank", child);
    co_await recv_from(c, child, theirs);
    by.combine_after(mine.data, theirs.data, mine.bytes);
  }
  if (v == 0) {
    by.finish(result);
    co_return;
  }
  const int parent = around(v - bit, root, n);
  c.at("tree, to rank", parent);
  co_await send_to(c, parent, mine);
}

}  // namespace tandem::detail
