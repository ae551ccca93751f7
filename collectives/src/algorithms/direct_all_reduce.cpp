#include "algorithms/algorithms.hpp"
#include "algorithms/fold.hpp"

namespace tandem::detail {

asio::awaitable<void> direct_all_reduce(call& c, const_view from, mutable_view data, reducer by) {
  const int n = c.in->size();
  const fold as(n, c.in->rank());
  const blocks cut(data.bytes, n);
  const mutable_view all = c.scratch(0, cut.total());
  const mutable_view own = cut.in(all, c.in->rank());
  by.prepare(own.data, from.data, own.bytes);
  if (c.unsettled()) co_await c.settle();
  co_await give_to_all(c, own, all, cut);
  const auto join = [&](void* into, int lower, int higher) {
    by.combine(into, cut.in(all, lower).data, cut.in(all, higher).data, data.bytes);
  };
  for (int i = 0; i < as.folded; ++i) {
    const int lower = as.rank_of(i);
    join(cut.in(all, lower).data, lower, lower + 1);
  }
  for (int d = 1; d < as.size; d *= 2) {
    for (int i = 0; i < as.size; i += 2 * d) {
      const int lower = as.rank_of(i);
      void* const into = 2 * d == as.size ? data.data : cut.in(all, lower).data;
      join(into, lower, as.rank_of(i + d));
    }
  }
  by.finish(data);
}

}  // namespace tandem::detail
