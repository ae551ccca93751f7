#include <tandem/collectives.hpp>

#include "islands/level_reduction.hpp"
#include "islands/routes.hpp"

namespace tandem::detail {
namespace {

/// One reduce_scatter through the levels.
struct leveled_reduce_scatter {
  leveled_reduce_scatter(island_parts& over, const_view contribution, mutable_view own,
                         const level_reduction& how)
      : p(over), all(contribution), mine(own), by(how), route(over.ranks) {}

  std::size_t count() const noexcept { return mine.bytes / by.element_bytes(); }

  /// Reduces the blocks of this leader inside the island, into its slots.
  asio::awaitable<const_view> combine();
  asio::awaitable<void> exchange(const_view sums, mutable_view into);
  asio::awaitable<void> forward_blocks(const_view slots);
  asio::awaitable<void> run();

  island_parts& p;
  const const_view all;
  const mutable_view mine;
  const level_reduction& by;
  const routes route;
};

asio::awaitable<const_view> leveled_reduce_scatter::combine() {
  const std::size_t each = mine.bytes;
  if (!p.down && route.is_in_order()) co_return all;
  const std::size_t slots = p.is_leader() ? route.slots(p.local_rank()) : 0;
  const mutable_view sums = p.scratch(slots * each);
  if (p.down) {
    vendor_calls calls(*p.down);
    for (int q = 0; q < p.all.size(); ++q) {
      const int leader = route.leader(q);
      std::byte* const into =
          leader == p.local_rank() ? bytes_at(sums, route.slot(q) * each) : nullptr;
      calls.reduce(bytes_at(all, static_cast<std::size_t>(q) * each), into, count(),
                   by.vendor_type(), by.inside(), leader);
    }
    calls.end();
  } else {
    for (int q = 0; q < p.all.size(); ++q) {
      p.copy(bytes_at(sums, route.slot(q) * each),
             bytes_at(all, static_cast<std::size_t>(q) * each), each);
    }
  }
  co_await p.synchronize_down();
  co_return sums;
}

asio::awaitable<void> leveled_reduce_scatter::exchange(const_view sums, mutable_view into) {
  std::vector<std::size_t> lengths = route.slots_by_island(p.local_rank());
  for (std::size_t& length : lengths) length *= mine.bytes;
  const reduction across = by.across();
  co_await tandem::reduce_scatter_v(*p.across, sums, into, lengths, by.type(), across);
}

/// Sends the blocks from the leaders to the ranks that they belong to.
asio::awaitable<void> leveled_reduce_scatter::forward_blocks(const_view slots) {
  if (p.is_leader()) p.copy(mine.data, slots.data, mine.bytes);
  {
    vendor_calls calls(*p.down);
    if (p.is_leader()) {
      std::size_t at = 0;
      for (const int ward : route.followers(p.island(), p.local_rank())) {
        at += mine.bytes;
        calls.send(bytes_at(slots, at), count(), by.vendor_type(),
                   p.ranks.local_rank_of[static_cast<std::size_t>(ward)]);
      }
    } else {
      calls.recv(bytes_at(mine), count(), by.vendor_type(), route.leader(p.rank()));
    }
    calls.end();
  }
  co_await p.synchronize_down();
}

asio::awaitable<void> leveled_reduce_scatter::run() {
  if (p.islands() == 1) {
    p.down->reduce_scatter(bytes_at(all), bytes_at(mine), count(), by.vendor_type(), by.inside());
    co_await p.synchronize_down();
    co_return;
  }
  const const_view sums = co_await combine();
  mutable_view into = mine;
  const bool forwards = p.is_leader() && !route.followers(p.island(), p.local_rank()).empty();
  if (forwards) {
    const std::size_t first = route.slot(p.rank()) * mine.bytes;
    const std::size_t followers = route.followers(p.island(), p.local_rank()).size();
    into = p.scratch(sums.bytes).part(first, (1 + followers) * mine.bytes);
  }
  if (p.across) co_await exchange(sums, into);
  if (forwards || !p.is_leader()) co_await forward_blocks(into);
}

asio::awaitable<void> reduce_scatter_in_levels(island_parts& p, const_view all, mutable_view mine,
                                               data_type type, reduction what) {
  const level_reduction by(p, type, what);
  leveled_reduce_scatter one(p, all, mine, by);
  co_await one.run();
}

}  // namespace

asio::awaitable<void> island_parts::reduce_scatter(const_view from, mutable_view into,
                                                   data_type type, reduction what) {
  return run_levels("reduce_scatter", reduce_scatter_in_levels(*this, from, into, type, what));
}

}  // namespace tandem::detail
