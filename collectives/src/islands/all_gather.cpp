#include <tandem/collectives.hpp>

#include "islands/parts.hpp"
#include "islands/routes.hpp"

namespace tandem::detail {
namespace {

/// One all_gather through the levels.
struct leveled_all_gather {
  leveled_all_gather(island_parts& over, const_view contribution, mutable_view result)
      : p(over), mine(contribution), all(result), route(over.ranks) {}

  std::byte* block(int rank) const noexcept {
    return bytes_at(all, static_cast<std::size_t>(rank) * mine.bytes);
  }

  asio::awaitable<void> run();
  void broadcast_own();
  asio::awaitable<const_view> collect(mutable_view slots);
  asio::awaitable<void> exchange(const_view contribution, mutable_view slots);
  asio::awaitable<void> broadcast_received(const_view slots);

  island_parts& p;
  const const_view mine;
  const mutable_view all;
  const routes route;
};

/// Broadcasts the island's own blocks inside it while other islands' blocks are in flight.
void leveled_all_gather::broadcast_own() {
  vendor_calls calls(*p.up);
  for (const int q : p.mine()) {
    calls.broadcast(bytes_at(mine), block(q), mine.bytes, nc::uint8,
                    p.ranks.local_rank_of[static_cast<std::size_t>(q)]);
  }
  calls.end();
}

/// Collects the blocks that this leader sends for its island. Its own block is copied to a slot
/// only if the leader sends others as well.
asio::awaitable<const_view> leveled_all_gather::collect(mutable_view slots) {
  const std::vector<int> followers =
      p.is_leader() ? route.followers(p.island(), p.local_rank()) : std::vector<int>{};
  if (p.is_leader() && followers.empty()) co_return mine;
  mutable_view own;
  if (p.is_leader()) {
    own = slots.part(route.slot(p.rank()) * mine.bytes, (1 + followers.size()) * mine.bytes);
    p.copy(own.data, mine.data, mine.bytes);
  }
  {
    vendor_calls calls(*p.down);
    std::size_t at = 0;
    for (const int ward : followers) {
      at += mine.bytes;
      calls.recv(bytes_at(own, at), mine.bytes, nc::uint8,
                 p.ranks.local_rank_of[static_cast<std::size_t>(ward)]);
    }
    if (!p.is_leader()) calls.send(bytes_at(mine), mine.bytes, nc::uint8, route.leader(p.rank()));
    calls.end();
  }
  co_await p.synchronize_down();
  co_return own;
}

asio::awaitable<void> leveled_all_gather::exchange(const_view contribution, mutable_view slots) {
  std::vector<std::size_t> lengths = route.slots_by_island(p.local_rank());
  for (std::size_t& length : lengths) length *= mine.bytes;
  co_await tandem::all_gather_v(*p.across, contribution, slots, lengths);
}

/// From the leaders that received them to all ranks of the island.
asio::awaitable<void> leveled_all_gather::broadcast_received(const_view slots) {
  if (p.up) {
    vendor_calls calls(*p.up);
    for (int q = 0; q < p.all.size(); ++q) {
      if (p.ranks.island_of[static_cast<std::size_t>(q)] == p.island()) continue;
      const int leader = route.leader(q);
      const bool is_here = leader == p.local_rank();
      calls.broadcast(is_here ? bytes_at(slots, route.slot(q) * mine.bytes) : nullptr, block(q),
                      mine.bytes, nc::uint8, leader);
    }
    calls.end();
  } else {
    for (int q = 0; q < p.all.size(); ++q) {
      p.copy(block(q), bytes_at(slots, route.slot(q) * mine.bytes), mine.bytes);
    }
  }
  if (p.up) {
    co_await p.synchronize_group(*p.up);
  } else {
    co_await p.synchronize_down();
  }
}

asio::awaitable<void> leveled_all_gather::run() {
  if (p.islands() == 1) {
    p.down->all_gather(bytes_at(mine), bytes_at(all), mine.bytes, nc::uint8);
    co_await p.synchronize_down();
    co_return;
  }
  if (p.up) broadcast_own();
  const bool is_direct = !p.up && route.is_in_order();
  mutable_view slots = all;
  if (!is_direct) slots = p.scratch(p.is_leader() ? route.slots(p.local_rank()) * mine.bytes : 0);
  const const_view contribution = co_await collect(slots);
  if (p.across) co_await exchange(contribution, slots);
  if (!is_direct) co_await broadcast_received(slots);
}

asio::awaitable<void> all_gather_in_levels(island_parts& p, const_view mine, mutable_view all) {
  leveled_all_gather one(p, mine, all);
  co_await one.run();
}

}  // namespace

asio::awaitable<void> island_parts::all_gather(const_view from, mutable_view into) {
  return run_levels("all_gather", all_gather_in_levels(*this, from, into));
}

}  // namespace tandem::detail
