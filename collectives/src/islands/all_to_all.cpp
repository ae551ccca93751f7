#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <utility>

#include "algorithms/algorithms.hpp"
#include "islands/parts.hpp"
#include "islands/routes.hpp"
#include "operations/arguments.hpp"

namespace tandem {
namespace detail {
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

/// Exchanges blocks with all ranks of other islands at once.
asio::awaitable<void> exchange_outside(island_parts& p, const_view from, mutable_view into) {
  const std::shared_ptr<group>& g = p.all.internals();
  const std::size_t each = from.bytes / static_cast<std::size_t>(g->size());
  const routes route(p.ranks);
  blocks sent = route.blocks_outside(g->rank(), each);
  blocks received = sent;
  const call_record record(collective::all_to_all, algorithm::direct, into.bytes);
  lease slot(g, record, 0, g->queue_for(into));
  call& c = *slot;
  return run_call(std::move(slot), exchange_with_all(c, from, std::move(sent), into,
                                                     std::move(received), direct_window));
}

asio::awaitable<void> all_to_all_in_levels(island_parts& p, const_view from, mutable_view into) {
  std::vector<asio::awaitable<void>> both;
  both.push_back(p.level("all_to_all", exchange_inside(p, from, into)));
  if (p.islands() > 1) {
    both.push_back(p.level("all_to_all", exchange_outside(p, from, into)));
  }
  co_await when_all(std::move(both));
}

}  // namespace
}  // namespace detail

asio::awaitable<void> islands::all_to_all(const_view from, mutable_view into) {
  using namespace detail;
  constexpr const char* name = "all_to_all";
  island_parts& p = *parts_;
  if (!p.has_levels()) return tandem::all_to_all(p.all, from, into);
  const group& g = *p.all.internals();
  const const_view block = into.part(0, into.bytes / static_cast<std::size_t>(g.size()));
  std::optional<error> not_carried;
  if (p.islands() > 1) not_carried = check_memory(*p.all.internals(), name, into);
  if (const auto wrong =
          first_error(p.check_view(name, from), p.check_view(name, into), not_carried,
                      check_separate_views(name, from, into), check_result(name, from, into),
                      check_equal_blocks(g, name, into, block))) {
    return refuse(*wrong);
  }
  if (into.bytes == 0) return empty_call(p.all.internals());
  return p.run_levels(name, all_to_all_in_levels(p, from, into));
}

}  // namespace tandem
