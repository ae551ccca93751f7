#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <utility>

#include "algorithms/algorithms.hpp"
#include "islands/parts.hpp"
#include "islands/routes.hpp"

namespace tandem::detail {
namespace {

/// Exchanges blocks inside the island, and copies this rank's own block.
asio::awaitable<void> exchange_inside(island_parts& p, const_view from, mutable_view into) {
  const std::size_t each = from.bytes / static_cast<std::size_t>(p.all.size());
  const auto offset = [each](int rank) { return static_cast<std::size_t>(rank) * each; };
  p.copy(bytes_at(into, offset(p.rank())), bytes_at(from, offset(p.rank())), each);
  if (p.down) {
    vendor_calls calls(*p.down);
    for (const int q : p.mine()) {
      if (q == p.rank()) continue;
      const int local_rank = p.ranks.local_rank_of[static_cast<std::size_t>(q)];
      calls.send(bytes_at(from, offset(q)), each, nc::uint8, local_rank);
      calls.recv(bytes_at(into, offset(q)), each, nc::uint8, local_rank);
    }
    calls.end();
  }
  co_await p.synchronize_down();
}

/// Exchanges blocks with all ranks of other islands at once, as a level of the call.
asio::awaitable<void> exchange_outside(island_parts& p, const call& whole, const_view from,
                                       mutable_view into) {
  const std::size_t each = from.bytes / static_cast<std::size_t>(p.all.size());
  const routes route(p.ranks);
  blocks sent = route.blocks_outside(p.rank(), each);
  blocks received = sent;
  lease slot(p.all.shared_from_this(), whole.name, 0, p.all.queue_for(into));
  call& c = *slot;
  c.make_level_of(whole, 1);
  return run_call(
      std::move(slot),
      exchange_with_all(c, from, std::move(sent), into, std::move(received), direct_window),
      call::kind::level);
}

asio::awaitable<void> all_to_all_in_levels(island_parts& p, const call& whole, const_view from,
                                           mutable_view into) {
  std::vector<asio::awaitable<void>> both;
  both.push_back(p.level("all_to_all", exchange_inside(p, from, into)));
  if (p.islands() > 1) {
    both.push_back(p.level("all_to_all", exchange_outside(p, whole, from, into)));
  }
  co_await when_all(std::move(both));
}

}  // namespace

asio::awaitable<void> island_parts::all_to_all(call& c, const_view from, mutable_view into) {
  return run_levels("all_to_all", all_to_all_in_levels(*this, c, from, into));
}

}  // namespace tandem::detail
