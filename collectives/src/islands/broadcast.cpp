#include <tandem/collectives.hpp>

#include "islands/parts.hpp"

namespace tandem::detail {
namespace {

/// One island: one broadcast of the library.
asio::awaitable<void> broadcast_inside(island_parts& p, mutable_view data, int root) {
  {
    vendor_calls calls(*p.down);
    calls.broadcast(bytes_at(data), bytes_at(data), data.bytes, nc::uint8,
                    p.ranks.local_rank_of[static_cast<std::size_t>(root)]);
    calls.end();
  }
  co_await p.synchronize_group(*p.down);
}

asio::awaitable<void> broadcast_in_levels(island_parts& p, mutable_view data, int root) {
  const auto at_root = static_cast<std::size_t>(root);
  const int leader_count = p.ranks.leader_count;
  if (p.down && p.island() == p.ranks.island_of[at_root]) {
    p.down->scatter_segments(bytes_at(data), data.bytes, 1, leader_count, nc::uint8,
                             p.ranks.local_rank_of[at_root]);
    co_await p.synchronize_group(*p.down);
  }
  if (p.across) {
    const segment s = segment_of(data.bytes, leader_count, p.local_rank());
    const mutable_view part = data.part(s.first, s.count);
    co_await tandem::broadcast(*p.across, part, p.ranks.island_of[at_root]);
  }
  if (p.up) {
    p.up->broadcast_segments(bytes_at(data), data.bytes, 1, leader_count, nc::uint8);
    co_await p.synchronize_group(*p.up);
  }
}

}  // namespace

asio::awaitable<void> island_parts::broadcast(mutable_view data, int root) {
  return run_levels("broadcast", islands() == 1 ? broadcast_inside(*this, data, root)
                                                : broadcast_in_levels(*this, data, root));
}

}  // namespace tandem::detail
