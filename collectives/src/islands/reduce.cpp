#include <tandem/collectives.hpp>

#include "islands/level_reduction.hpp"

namespace tandem::detail {
namespace {

/// One island: one reduction of the library.
asio::awaitable<void> reduce_inside(island_parts& p, const_view data, mutable_view result,
                                    const level_reduction& by, int root) {
  vendor_group& group = *p.down;
  {
    vendor_calls calls(group);
    calls.reduce(bytes_at(data), bytes_at(result), data.bytes / by.element_bytes(),
                 by.vendor_type(), by.inside(),
                 p.ranks.local_rank_of[static_cast<std::size_t>(root)]);
    calls.end();
  }
  co_await p.synchronize_group(group);
}

/// Reduces segments to the leaders of each island, in scratch memory because the ranks' data does
/// not change; then across islands to the leaders of the root's island; then from them to the root.
asio::awaitable<void> reduce_in_levels(island_parts& p, const_view data, mutable_view result,
                                       data_type type, reduction what, int root) {
  const level_reduction by(p, type, what);
  if (p.islands() == 1) {
    co_await reduce_inside(p, data, result, by, root);
    co_return;
  }
  const auto at_root = static_cast<std::size_t>(root);
  const int leader_count = p.ranks.leader_count, root_island = p.ranks.island_of[at_root];
  const std::size_t each = by.element_bytes(), count = data.bytes / each;
  const segment own = p.is_leader() ? segment_of(count, leader_count, p.local_rank()) : segment{};
  const bool is_root = p.rank() == root;
  mutable_view sums;
  const_view contribution = data;
  if (p.down) {
    sums = p.scratch(own.count * each);
    contribution = sums;
    p.down->reduce_segments(bytes_at(data), bytes_at(sums), count, each, leader_count,
                            by.vendor_type(), by.inside());
    co_await p.synchronize_group(*p.down);
  }
  if (p.across) {
    const mutable_view into = is_root ? result.part(own.first * each, own.count * each) : sums;
    const reduction across = by.across();
    co_await tandem::reduce(*p.across, contribution, into, type, across, root_island);
  }
  if (p.down && p.island() == root_island) {
    p.down->collect_segments(bytes_at(sums), bytes_at(result), count, each, leader_count,
                             by.vendor_type(), p.ranks.local_rank_of[at_root]);
    co_await p.synchronize_group(*p.down);
  }
}

}  // namespace

asio::awaitable<void> island_parts::reduce(const_view data, mutable_view result, data_type type,
                                           reduction what, int root) {
  return run_levels("reduce", reduce_in_levels(*this, data, result, type, what, root));
}

}  // namespace tandem::detail
