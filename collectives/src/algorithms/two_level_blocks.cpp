#include <algorithm>
#include <tandem/async.hpp>
#include <utility>

#include "algorithms/two_level.hpp"
#include "partition/slices.hpp"

namespace tandem::detail {
namespace {

/// The arguments shared by both levels of a call.
struct block_levels {
  levels& in;
  slices& through;
  const blocks& cut;
  std::size_t element_bytes;
  std::size_t chunk_bytes;

  int hosts() const noexcept { return in.where().hosts(); }
  /// The ring partition of slice k of these ranks' blocks.
  ring_cut ring(std::span<const int> ranks, int k) const {
    return {cut.slice_of(ranks, element_bytes, k, through.count()), element_bytes, chunk_bytes};
  }
  ring_cut ring_inside(int host, int k) const {
    return ring(in.where().members[static_cast<std::size_t>(host)], k);
  }
  /// Slice k of a block, relative to the block.
  extent part(std::size_t bytes, int k) const noexcept {
    return blocks(bytes / element_bytes, element_bytes, through.count()).at(k);
  }
  std::size_t scratch_bytes() const noexcept {
    const std::size_t longest = part(cut.longest(), 0).bytes + element_bytes;
    return 3 * ring_walk::window * std::min(longest, std::max(chunk_bytes, element_bytes));
  }
};

asio::awaitable<void> gather_across(call& c, const block_levels& l, const_view mine,
                                    mutable_view all) {
  for (int k = 0; k < l.through.count(); ++k) {
    const const_view own = at(mine, l.part(mine.bytes, k));
    const ring_cut cut = l.ring(l.in.ranks_across(), k);
    asio::awaitable<void> work = ring_all_gather(c, own, all, cut);
    co_await std::move(work);
    if (c.outstanding()) co_await c.synchronize();
    l.through.pass(0);
  }
}

asio::awaitable<void> gather_within(call& c, const block_levels& l, mutable_view all) {
  for (int k = 0; k < l.through.count(); ++k) {
    co_await l.through.wait_for(0, k);
    for (int host = 0; host < l.hosts(); ++host) {
      const ring_cut cut = l.ring_inside(host, k);
      const mutable_view own = cut.segments.in(all, c.in->rank());
      asio::awaitable<void> work = ring_all_gather(c, own, all, cut);
      co_await std::move(work);
    }
  }
}

/// The scratch memory for this host's partial results of the blocks that this rank exchanges: for
/// each host, the block of the rank with the same local rank.
class partial_sums {
 public:
  partial_sums(call& c, const block_levels& l) : l_(l) {
    std::size_t offset = 0;
    for (const int rank : l.in.ranks_across()) {
      extents_.push_back({offset, l.cut.bytes(rank)});
      offset += l.cut.bytes(rank);
    }
    all_ = c.scratch(0, offset);
  }

  mutable_view all() const noexcept { return all_; }
  /// Slice k of each block.
  blocks slice(int k) const {
    std::vector<extent> parts;
    for (const extent& block : extents_) {
      const extent part = l_.part(block.bytes, k);
      parts.push_back({block.offset + part.offset, part.bytes});
    }
    return blocks(std::move(parts));
  }

 private:
  const block_levels& l_;
  std::vector<extent> extents_;
  mutable_view all_;
};

asio::awaitable<void> reduce_within(call& c, const block_levels& l, const_view all,
                                    const partial_sums& sums, reducer by) {
  for (int k = 0; k < l.through.count(); ++k) {
    const blocks into = sums.slice(k);
    for (int host = 0; host < l.hosts(); ++host) {
      const ring_cut cut = l.ring_inside(host, k);
      const mutable_view sum = into.in(sums.all(), host);
      asio::awaitable<void> work = ring_reduce_scatter(c, all, sum, by.without_finish(), cut);
      co_await std::move(work);
    }
    if (c.outstanding()) co_await c.synchronize();
    l.through.pass(0);
  }
}

asio::awaitable<void> scatter_across(call& c, const block_levels& l, const partial_sums& sums,
                                     mutable_view mine, reducer by) {
  for (int k = 0; k < l.through.count(); ++k) {
    co_await l.through.wait_for(0, k);
    const ring_cut cut(sums.slice(k), l.element_bytes, l.chunk_bytes);
    const mutable_view own = at(mine, l.part(mine.bytes, k));
    asio::awaitable<void> work = ring_reduce_scatter(c, sums.all(), own, by.without_prepare(), cut);
    co_await std::move(work);
  }
}

}  // namespace

asio::awaitable<void> two_level_all_gather(call& c, const_view mine, mutable_view all, blocks cut,
                                           std::size_t chunk_bytes) {
  levels& in = c.in->hosts();
  if (!in.where().equal()) {
    const ring_cut pieces(cut.slice_of(in.where().in_order(), 1, 0, 1), 1, chunk_bytes);
    lease only = acquire_level(c, in.in_order(), 1, "host by host", 0);
    call& one = *only;
    asio::awaitable<void> work = ring_all_gather(one, mine, all, pieces);
    co_await run_call(std::move(only), std::move(work), call::kind::level);
    co_return;
  }
  slices through(c.in->executor(), all.bytes, 1, chunk_bytes);
  const block_levels l{in, through, cut, 1, chunk_bytes};
  lease first = acquire_level(c, in.across(), 1, across_hosts, 0);
  lease second = acquire_level(c, in.within(), 2, inside_host, 0);
  call &one = *first, &two = *second;
  std::vector<asio::awaitable<void>> parts;
  parts.push_back(run_call(std::move(first), gather_across(one, l, mine, all), call::kind::level));
  parts.push_back(run_call(std::move(second), gather_within(two, l, all), call::kind::level));
  co_await when_all(std::move(parts));
}

asio::awaitable<void> two_level_reduce_scatter(call& c, const_view all, mutable_view mine,
                                               reducer by, blocks cut, std::size_t chunk_bytes) {
  levels& in = c.in->hosts();
  const std::size_t each = by.element_bytes();
  if (!in.where().equal()) {
    const ring_cut pieces(cut.slice_of(in.where().in_order(), each, 0, 1), each, chunk_bytes);
    const std::size_t scratch = 3 * ring_walk::window * pieces.chunk_bytes;
    lease only = acquire_level(c, in.in_order(), 1, "host by host", scratch);
    call& one = *only;
    asio::awaitable<void> work = ring_reduce_scatter(one, all, mine, by, pieces);
    co_await run_call(std::move(only), std::move(work), call::kind::level);
    co_return;
  }
  slices through(c.in->executor(), all.bytes, each, chunk_bytes);
  const block_levels l{in, through, cut, each, chunk_bytes};
  const partial_sums sums(c, l);
  lease first = acquire_level(c, in.within(), 1, inside_host, l.scratch_bytes());
  lease second = acquire_level(c, in.across(), 2, across_hosts, l.scratch_bytes());
  call &one = *first, &two = *second;
  std::vector<asio::awaitable<void>> parts;
  parts.push_back(
      run_call(std::move(first), reduce_within(one, l, all, sums, by), call::kind::level));
  parts.push_back(
      run_call(std::move(second), scatter_across(two, l, sums, mine, by), call::kind::level));
  co_await when_all(std::move(parts));
}

}  // namespace tandem::detail
