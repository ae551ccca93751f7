#include "algorithms/two_level.hpp"

#include <algorithm>
#include <tandem/async.hpp>
#include <utility>

#include "partition/slices.hpp"

namespace tandem::detail {
namespace {

/// The arguments shared by the levels of an all_reduce.
struct reduction_level {
  slices& through;
  const_view from;
  mutable_view data;
  reducer by;
  std::size_t chunk_bytes;

  ring_cut cut(const group& part, std::size_t bytes) const {
    const std::size_t each = by.element_bytes();
    return {blocks(bytes / each, each, part.size()), each, chunk_bytes};
  }
  ring_cut longest_cut(const group& part) const { return cut(part, through.longest()); }
};

/// This rank's segment of a slice inside its host.
mutable_view own_segment(const reduction_level& l, const group& within, int slice) {
  const mutable_view data = l.through.of(l.data, slice);
  return l.cut(within, data.bytes).segments.in(data, within.rank());
}

asio::awaitable<void> scatter_inside(call& c, reduction_level l) {
  for (int k = 0; k < l.through.count(); ++k) {
    const const_view from = l.through.of(l.from, k);
    const mutable_view mine = own_segment(l, *c.in, k);
    const ring_cut cut = l.cut(*c.in, from.bytes);
    asio::awaitable<void> work = ring_reduce_scatter(c, from, mine, l.by.without_finish(), cut);
    co_await std::move(work);
    if (c.outstanding()) co_await c.synchronize();
    l.through.pass(0);
  }
}

asio::awaitable<void> reduce_across(call& c, reduction_level l, const group& within) {
  for (int k = 0; k < l.through.count(); ++k) {
    co_await l.through.wait_for(0, k);
    const mutable_view mine = own_segment(l, within, k);
    const ring_cut cut = l.cut(*c.in, mine.bytes);
    asio::awaitable<void> work = ring_all_reduce(c, mine, mine, l.by.without_prepare(), cut);
    co_await std::move(work);
    if (c.outstanding()) co_await c.synchronize();
    l.through.pass(1);
  }
}

asio::awaitable<void> gather_inside(call& c, reduction_level l) {
  for (int k = 0; k < l.through.count(); ++k) {
    co_await l.through.wait_for(1, k);
    const mutable_view data = l.through.of(l.data, k);
    const mutable_view mine = own_segment(l, *c.in, k);
    const ring_cut cut = l.cut(*c.in, data.bytes);
    asio::awaitable<void> work = ring_all_gather(c, mine, data, cut);
    co_await std::move(work);
  }
}

/// Equally many ranks on each host: every rank exchanges its segment across hosts.
asio::awaitable<void> by_segments(call& c, levels& in, reduction_level l) {
  const group& within = *in.within();
  const ring_cut cut = l.longest_cut(within);
  const std::size_t scatter = 3 * ring_walk::window * cut.chunk_bytes;
  const std::size_t reduce =
      ring_walk::window * l.cut(*in.across(), cut.segments.longest()).chunk_bytes;
  lease first = acquire_level(c, in.within(), 1, inside_host, scatter);
  lease second = acquire_level(c, in.across(), 2, across_hosts, reduce);
  lease third = acquire_level(c, in.within(), 3, inside_host, 0);
  call &one = *first, &two = *second, &three = *third;
  std::vector<asio::awaitable<void>> parts;
  parts.push_back(run_call(std::move(first), scatter_inside(one, l), call::kind::level));
  parts.push_back(run_call(std::move(second), reduce_across(two, l, within), call::kind::level));
  parts.push_back(run_call(std::move(third), gather_inside(three, l), call::kind::level));
  co_await when_all(std::move(parts));
}

asio::awaitable<void> reduce_inside(call& c, reduction_level l) {
  for (int k = 0; k < l.through.count(); ++k) {
    const const_view from = l.through.of(l.from, k);
    const mutable_view data = l.through.of(l.data, k);
    co_await chain_reduce(c, from, data, 0, l.by.without_finish(), l.chunk_bytes);
    if (c.outstanding()) co_await c.synchronize();
    l.through.pass(0);
  }
}

asio::awaitable<void> reduce_leaders(call& c, reduction_level l) {
  for (int k = 0; k < l.through.count(); ++k) {
    co_await l.through.wait_for(0, k);
    const mutable_view data = l.through.of(l.data, k);
    const ring_cut cut = l.cut(*c.in, data.bytes);
    asio::awaitable<void> work = ring_all_reduce(c, data, data, l.by.without_prepare(), cut);
    co_await std::move(work);
    if (c.outstanding()) co_await c.synchronize();
    l.through.pass(1);
  }
}

asio::awaitable<void> pass_down(call& c, slices& through, mutable_view data, int root, int after,
                                int level, std::size_t chunk_bytes) {
  for (int k = 0; k < through.count(); ++k) {
    co_await through.wait_for(after, k);
    const mutable_view slice = through.of(data, k);
    co_await chain_broadcast(c, slice, root, chunk_bytes);
    through.pass(level);
  }
}

/// Otherwise the first rank of each host exchanges all data across hosts.
asio::awaitable<void> by_leaders(call& c, levels& in, reduction_level l) {
  const std::size_t chain = 2 * chain_window * std::max(l.chunk_bytes, l.by.element_bytes());
  std::vector<asio::awaitable<void>> parts;
  lease first = acquire_level(c, in.within(), 1, inside_host, chain);
  call& one = *first;
  parts.push_back(run_call(std::move(first), reduce_inside(one, l), call::kind::level));
  if (in.across()) {
    const std::size_t ring = ring_walk::window * l.longest_cut(*in.across()).chunk_bytes;
    lease second = acquire_level(c, in.across(), 2, across_hosts, ring);
    call& two = *second;
    parts.push_back(run_call(std::move(second), reduce_leaders(two, l), call::kind::level));
  }
  lease third = acquire_level(c, in.within(), 3, inside_host, 0);
  call& three = *third;
  const int after = in.across() ? 1 : 0;
  asio::awaitable<void> down = pass_down(three, l.through, l.data, 0, after, 2, l.chunk_bytes);
  parts.push_back(run_call(std::move(third), std::move(down), call::kind::level));
  co_await when_all(std::move(parts));
}

}  // namespace

asio::awaitable<void> two_level_all_reduce(call& c, const_view from, mutable_view data, reducer by,
                                           std::size_t chunk_bytes) {
  levels& in = c.in->hosts();
  slices through(c.in->executor(), data.bytes, by.element_bytes(), chunk_bytes);
  const reduction_level l{through, from, data, by, chunk_bytes};
  if (in.where().equal()) {
    co_await by_segments(c, in, l);
  } else {
    co_await by_leaders(c, in, l);
  }
}

asio::awaitable<void> two_level_broadcast(call& c, mutable_view data, int root,
                                          std::size_t chunk_bytes) {
  levels& in = c.in->hosts();
  const layout& where = in.where();
  const int host = where.host[static_cast<std::size_t>(c.in->rank())];
  const int root_host = where.host[static_cast<std::size_t>(root)];
  const int leader = host == root_host ? where.local_rank[static_cast<std::size_t>(root)] : 0;
  slices through(c.in->executor(), data.bytes, 1, chunk_bytes);

  std::vector<asio::awaitable<void>> parts;
  const std::shared_ptr<group> leaders = in.leaders(root);
  if (leaders) {
    lease first = acquire_level(c, leaders, 1, across_hosts, 0);
    call& one = *first;
    asio::awaitable<void> down =
        pass_down(one, through, data, root_host, slices::none, 0, chunk_bytes);
    parts.push_back(run_call(std::move(first), std::move(down), call::kind::level));
  }
  lease second = acquire_level(c, in.within(), 2, inside_host, 0);
  call& two = *second;
  const int after = leaders ? 0 : slices::none;
  asio::awaitable<void> down = pass_down(two, through, data, leader, after, 1, chunk_bytes);
  parts.push_back(run_call(std::move(second), std::move(down), call::kind::level));
  co_await when_all(std::move(parts));
}

}  // namespace tandem::detail
