#include <tandem/collectives/collectives.hpp>

#include "arguments.hpp"
#include "islands/level_reduction.hpp"
#include "islands/routes.hpp"

namespace tandem {
namespace detail {
namespace {

/// One reduce_scatter through the levels.
struct scattering {
  scattering(island_parts& over, const_view brought, mutable_view own, const level_reduction& how)
      : p(over), all(brought), mine(own), by(how), way(over.ranks) {}

  std::size_t count() const noexcept { return mine.bytes / by.element_bytes(); }

  /// Reduces the blocks of this leader inside the island, into its slots.
  asio::awaitable<const_view> combine();
  asio::awaitable<void> exchange(const_view sums, mutable_view into);
  asio::awaitable<void> hand_on(const_view slots);
  asio::awaitable<void> run();

  island_parts& p;
  const const_view all;
  const mutable_view mine;
  const level_reduction& by;
  const routes way;
};

asio::awaitable<const_view> scattering::combine() {
  const std::size_t each = mine.bytes;
  if (!p.down && way.is_in_order()) co_return all;
  const std::size_t slots = p.exchanges() ? way.slots(p.place()) : 0;
  const mutable_view sums = p.scratch(slots * each);
  if (p.down) {
    vendor_calls calls(*p.down);
    for (int q = 0; q < p.all.size(); ++q) {
      const int carrier = way.carrier(q);
      std::byte* const into = carrier == p.place() ? bytes_at(sums, way.slot(q) * each) : nullptr;
      calls.reduce(bytes_at(all, static_cast<std::size_t>(q) * each), into, count(),
                   by.vendor_type(), by.inside(), carrier);
    }
    calls.end();
  } else {
    for (int q = 0; q < p.all.size(); ++q) {
      p.copy(bytes_at(sums, way.slot(q) * each), bytes_at(all, static_cast<std::size_t>(q) * each),
             each);
    }
  }
  co_await p.done_below();
  co_return sums;
}

asio::awaitable<void> scattering::exchange(const_view sums, mutable_view into) {
  std::vector<std::size_t> lengths = way.slots_by_island(p.place());
  for (std::size_t& length : lengths) length *= mine.bytes;
  const reduction across = by.across();
  co_await tandem::reduce_scatter_v(*p.across, sums, into, lengths, by.type(), across);
}

/// Sends the blocks from the leaders to the ranks that they belong to.
asio::awaitable<void> scattering::hand_on(const_view slots) {
  if (p.exchanges()) p.copy(mine.data, slots.data, mine.bytes);
  {
    vendor_calls calls(*p.down);
    if (p.exchanges()) {
      std::size_t at = 0;
      for (const int ward : way.wards(p.island(), p.place())) {
        at += mine.bytes;
        calls.send(bytes_at(slots, at), count(), by.vendor_type(),
                   p.ranks.place_of[static_cast<std::size_t>(ward)]);
      }
    } else {
      calls.recv(bytes_at(mine), count(), by.vendor_type(), way.carrier(p.rank()));
    }
    calls.end();
  }
  co_await p.done_below();
}

asio::awaitable<void> scattering::run() {
  if (p.islands() == 1) {
    p.down->reduce_scatter(bytes_at(all), bytes_at(mine), count(), by.vendor_type(), by.inside());
    co_await p.done_below();
    co_return;
  }
  const const_view sums = co_await combine();
  mutable_view into = mine;
  const bool hands_on = p.exchanges() && !way.wards(p.island(), p.place()).empty();
  if (hands_on) {
    const std::size_t first = way.slot(p.rank()) * mine.bytes;
    const std::size_t wards = way.wards(p.island(), p.place()).size();
    into = p.scratch(sums.bytes).part(first, (1 + wards) * mine.bytes);
  }
  if (p.across) co_await exchange(sums, into);
  if (hands_on || !p.exchanges()) co_await hand_on(into);
}

asio::awaitable<void> reduce_scatter_in_levels(island_parts& p, const_view all, mutable_view mine,
                                               data_type type, reduction what) {
  const level_reduction by(p, type, what);
  scattering one(p, all, mine, by);
  co_await one.run();
}

}  // namespace
}  // namespace detail

asio::awaitable<void> islands::reduce_scatter(const_view all, mutable_view mine, data_type type,
                                              reduction what) {
  using namespace detail;
  constexpr const char* name = "reduce_scatter";
  island_parts& p = *parts_;
  if (!level_reduction::is_possible(p, type, what.op)) {
    return tandem::reduce_scatter(p.all, all, mine, type, what);
  }
  const group& g = *p.all.internals();
  if (const auto wrong =
          first_wrong(p.wrong_operands(name, all, type, what),
                      p.wrong_operands(name, mine, type, what), wrong_share(g, name, all, mine))) {
    return refuse(*wrong);
  }
  const blocks cut(mine.bytes, g.size());
  if (const auto wrong = wrong_place(name, mine, all, cut.at(g.rank()))) return refuse(*wrong);
  if (all.bytes == 0) return nothing(p.all.internals());
  return p.carry_through(name, reduce_scatter_in_levels(p, all, mine, type, what));
}

}  // namespace tandem
