#include "algorithms/algorithms.hpp"
#include "partition/fold.hpp"

namespace tandem::detail {
namespace {

/// The range of elements that a rank combines, halved in each step.
struct half {
  std::size_t first = 0, last = 0;

  std::size_t middle() const noexcept { return first + (last - first) / 2; }
  half lower() const noexcept { return {first, middle()}; }
  half upper() const noexcept { return {middle(), last}; }
  mutable_view in(mutable_view data, std::size_t element_bytes) const noexcept {
    return data.part(first * element_bytes, (last - first) * element_bytes);
  }
};

/// The range of a rank after `steps` halvings: bit k of its index selects the half it keeps in step
/// k.
half after(int steps, int index, std::size_t elements) noexcept {
  half at{0, elements};
  for (int k = 0; k < steps; ++k) at = (index >> k & 1) != 0 ? at.upper() : at.lower();
  return at;
}

}  // namespace

asio::awaitable<void> halving_doubling(call& c, const_view from, mutable_view data, reducer by) {
  const fold as(c.in->size(), c.in->rank());
  const std::size_t each = by.element_bytes();
  const std::size_t elements = data.bytes / each;
  by.prepare(data.data, from.data, data.bytes);
  if (as.is_folded) {
    c.at("halving and doubling, fold", 0, 1);
    if (!as.continues) {
      co_await fold_out(c, data);
      co_return;
    }
    const mutable_view theirs = c.scratch(0, data.bytes);
    co_await fold_in(c, data, theirs, by);
  }
  for (int step = 0; step < as.steps(); ++step) {
    c.at("halving and doubling", step, 2 * as.steps());
    const int peer = as.rank_of(as.index ^ (1 << step));
    const half both = after(step, as.index, elements);
    const bool keeps_upper = (as.index >> step & 1) != 0;
    const mutable_view kept = (keeps_upper ? both.upper() : both.lower()).in(data, each);
    const mutable_view given = (keeps_upper ? both.lower() : both.upper()).in(data, each);
    const mutable_view theirs = c.scratch(0, kept.bytes);
    co_await exchange(c, peer, given, peer, theirs);
    if (keeps_upper) {
      by.combine_before(kept.data, theirs.data, kept.bytes);
    } else {
      by.combine_after(kept.data, theirs.data, kept.bytes);
    }
  }
  by.finish(after(as.steps(), as.index, elements).in(data, each));
  for (int step = as.steps() - 1; step >= 0; --step) {
    c.at("halving and doubling", 2 * as.steps() - 1 - step, 2 * as.steps());
    const int peer = as.rank_of(as.index ^ (1 << step));
    const mutable_view have = after(step + 1, as.index, elements).in(data, each);
    const mutable_view lack = after(step + 1, as.index ^ (1 << step), elements).in(data, each);
    co_await exchange(c, peer, have, peer, lack);
  }
  if (!as.is_folded) co_return;
  c.at("halving and doubling, unfold", 0, 1);
  co_await send_to(c, c.in->rank() + 1, data);
}

}  // namespace tandem::detail
