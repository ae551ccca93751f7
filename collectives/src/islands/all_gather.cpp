#include <tandem/collectives/collectives.hpp>

#include "arguments.hpp"
#include "islands/parts.hpp"
#include "islands/routes.hpp"

namespace tandem {
namespace detail {
namespace {

/// One all_gather through the levels.
struct gathering {
  gathering(island_parts& over, const_view brought, mutable_view result)
      : p(over), mine(brought), all(result), way(over.ranks) {}

  std::byte* block(int rank) const noexcept {
    return bytes_at(all, static_cast<std::size_t>(rank) * mine.bytes);
  }

  asio::awaitable<void> run();
  void spread_own();
  asio::awaitable<const_view> collect(mutable_view slots);
  asio::awaitable<void> exchange(const_view brought, mutable_view slots);
  asio::awaitable<void> spread_others(const_view slots);

  island_parts& p;
  const const_view mine;
  const mutable_view all;
  const routes way;
};

/// Broadcasts the island's own blocks inside it while other islands' blocks are in flight.
void gathering::spread_own() {
  vendor_calls calls(*p.up);
  for (const int q : p.mine()) {
    calls.broadcast(bytes_at(mine), block(q), mine.bytes, nc::uint8,
                    p.ranks.place_of[static_cast<std::size_t>(q)]);
  }
  calls.end();
}

/// Collects the blocks that this leader sends for its island. Its own block is copied to a slot
/// only if the leader sends others as well.
asio::awaitable<const_view> gathering::collect(mutable_view slots) {
  const std::vector<int> wards =
      p.exchanges() ? way.wards(p.island(), p.place()) : std::vector<int>{};
  if (p.exchanges() && wards.empty()) co_return mine;
  mutable_view own;
  if (p.exchanges()) {
    own = slots.part(way.slot(p.rank()) * mine.bytes, (1 + wards.size()) * mine.bytes);
    p.copy(own.data, mine.data, mine.bytes);
  }
  {
    vendor_calls calls(*p.down);
    std::size_t at = 0;
    for (const int ward : wards) {
      at += mine.bytes;
      calls.recv(bytes_at(own, at), mine.bytes, nc::uint8,
                 p.ranks.place_of[static_cast<std::size_t>(ward)]);
    }
    if (!p.exchanges()) calls.send(bytes_at(mine), mine.bytes, nc::uint8, way.carrier(p.rank()));
    calls.end();
  }
  co_await p.done_below();
  co_return own;
}

asio::awaitable<void> gathering::exchange(const_view brought, mutable_view slots) {
  std::vector<std::size_t> lengths = way.slots_by_island(p.place());
  for (std::size_t& length : lengths) length *= mine.bytes;
  co_await tandem::all_gather_v(*p.across, brought, slots, lengths);
}

/// From the leaders that received them to all ranks of the island.
asio::awaitable<void> gathering::spread_others(const_view slots) {
  if (p.up) {
    vendor_calls calls(*p.up);
    for (int q = 0; q < p.all.size(); ++q) {
      if (p.ranks.island_of[static_cast<std::size_t>(q)] == p.island()) continue;
      const int carrier = way.carrier(q);
      const bool is_here = carrier == p.place();
      calls.broadcast(is_here ? bytes_at(slots, way.slot(q) * mine.bytes) : nullptr, block(q),
                      mine.bytes, nc::uint8, carrier);
    }
    calls.end();
  } else {
    for (int q = 0; q < p.all.size(); ++q) {
      p.copy(block(q), bytes_at(slots, way.slot(q) * mine.bytes), mine.bytes);
    }
  }
  if (p.up) {
    co_await p.done_with(*p.up);
  } else {
    co_await p.done_below();
  }
}

asio::awaitable<void> gathering::run() {
  if (p.islands() == 1) {
    p.down->all_gather(bytes_at(mine), bytes_at(all), mine.bytes, nc::uint8);
    co_await p.done_below();
    co_return;
  }
  if (p.up) spread_own();
  const bool is_direct = !p.up && way.is_in_order();
  mutable_view slots = all;
  if (!is_direct) slots = p.scratch(p.exchanges() ? way.slots(p.place()) * mine.bytes : 0);
  const const_view brought = co_await collect(slots);
  if (p.across) co_await exchange(brought, slots);
  if (!is_direct) co_await spread_others(slots);
}

asio::awaitable<void> all_gather_in_levels(island_parts& p, const_view mine, mutable_view all) {
  gathering one(p, mine, all);
  co_await one.run();
}

}  // namespace
}  // namespace detail

asio::awaitable<void> islands::all_gather(const_view mine, mutable_view all) {
  using namespace detail;
  constexpr const char* name = "all_gather";
  island_parts& p = *parts_;
  if (!p.has_levels()) return tandem::all_gather(p.all, mine, all);
  const group& g = *p.all.internals();
  if (const auto wrong = first_wrong(p.wrong_view(name, mine), p.wrong_view(name, all),
                                     wrong_share(g, name, all, mine))) {
    return refuse(*wrong);
  }
  const blocks cut(mine.bytes, g.size());
  if (const auto wrong = wrong_place(name, mine, all, cut.at(g.rank()))) return refuse(*wrong);
  if (all.bytes == 0) return nothing(p.all.internals());
  return p.carry_through(name, all_gather_in_levels(p, mine, all));
}

}  // namespace tandem
