#include <bit>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {
namespace {

/// A rank's position in a binomial tree counted from the root: v's subtree is [v, v + size).
struct tree_position {
  tree_position(const call& c, int root_rank)
      : ranks(c.in->size()),
        root(root_rank),
        v(around(c.in->rank(), -root, ranks)),
        low(v == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : v & -v) {}

  int size_of(int first, int lowest_bit) const { return std::min(lowest_bit, ranks - first); }
  int size() const { return size_of(v, low); }
  int parent() const { return around(v - low, root, ranks); }
  int child(int bit) const { return around(v + bit, root, ranks); }

  int ranks, root, v, low;
};

/// Lengths for rotating between rank order and the order counted from the root.
struct rotation {
  rotation(const tree_position& by, std::size_t bytes_each)
      : behind(static_cast<std::size_t>(by.root) * bytes_each),
        ahead(static_cast<std::size_t>(by.ranks - by.root) * bytes_each) {}
  std::size_t behind, ahead;
};

}  // namespace

asio::awaitable<void> tree_gather(call& c, const_view mine, mutable_view all, int root) {
  const tree_position at(c, root);
  const std::size_t each = mine.bytes;
  const mutable_view rotated = c.scratch(0, static_cast<std::size_t>(at.ranks) * each);
  c.copy(rotated.part(0, each), mine);
  for (int bit = 1; bit < at.low; bit *= 2) {
    if (at.v + bit >= at.ranks) break;
    const int child = at.child(bit);
    c.at("tree, from rank", child);
    const auto count = static_cast<std::size_t>(at.size_of(at.v + bit, bit));
    const mutable_view part = rotated.part(static_cast<std::size_t>(bit) * each, count * each);
    co_await recv_from(c, child, part);
  }
  if (at.v != 0) {
    const int parent = at.parent();
    c.at("tree, to rank", parent);
    const const_view gathered = rotated.part(0, static_cast<std::size_t>(at.size()) * each);
    co_await send_to(c, parent, gathered);
    co_return;
  }
  const rotation by(at, each);
  c.copy(all.part(by.behind, by.ahead), rotated.part(0, by.ahead));
  c.copy(all.part(0, by.behind), rotated.part(by.ahead, by.behind));
}

asio::awaitable<void> tree_scatter(call& c, const_view all, mutable_view mine, int root) {
  const tree_position at(c, root);
  const std::size_t each = mine.bytes;
  const mutable_view rotated = c.scratch(0, static_cast<std::size_t>(at.ranks) * each);
  if (at.v == 0) {
    const rotation by(at, each);
    c.copy(rotated.part(0, by.ahead), all.part(by.behind, by.ahead));
    c.copy(rotated.part(by.ahead, by.behind), all.part(0, by.behind));
  } else {
    const int parent = at.parent();
    c.at("tree, from rank", parent);
    const mutable_view subtree = rotated.part(0, static_cast<std::size_t>(at.size()) * each);
    co_await recv_from(c, parent, subtree);
  }
  for (int bit = at.low / 2; bit > 0; bit /= 2) {
    if (at.v + bit >= at.ranks) continue;
    const int child = at.child(bit);
    c.at("tree, to rank", child);
    const auto count = static_cast<std::size_t>(at.size_of(at.v + bit, bit));
    const const_view part = rotated.part(static_cast<std::size_t>(bit) * each, count * each);
    co_await send_to(c, child, part);
  }
  c.copy(mine, rotated.part(0, each));
}

}  // namespace tandem::detail
