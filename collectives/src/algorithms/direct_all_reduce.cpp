#include "algorithms/algorithms.hpp"
#include "partition/fold.hpp"

namespace tandem::detail {

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

}  // namespace tandem::detail
