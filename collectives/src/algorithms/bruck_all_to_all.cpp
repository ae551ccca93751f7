#include <bit>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> bruck_all_to_all(call& c, const_view from, mutable_view into, blocks cut) {
  const int n = c.in->size();
  const int rank = c.in->rank();
  const std::size_t each = cut.bytes(0);
  // Block j must move j ranks ahead; in round k all blocks whose index has bit k move by 2^k.
  const mutable_view rotated = c.scratch(0, cut.total());
  const mutable_view packed = c.scratch(cut.total(), cut.total());
  for (int j = 0; j < n; ++j) c.copy(cut.in(rotated, j), cut.in(from, around(rank, j, n)));
  const int rounds = std::bit_width(static_cast<unsigned>(n - 1));
  for (int round = 0; round < rounds; ++round) {
    c.at("bruck", round, rounds);
    const int bit = 1 << round;
    int count = 0;
    for (int j = bit; j < n; ++j) {
      if ((j & bit) != 0) c.copy(cut.in(packed, count++), cut.in(rotated, j));
    }
    const int to = around(rank, bit, n);
    const int behind = around(rank, -bit, n);
    const std::size_t bytes = static_cast<std::size_t>(count) * each;
    const const_view given = packed.part(0, bytes);
    const mutable_view got = packed.part(bytes, bytes);
    co_await exchange(c, to, given, behind, got);
    for (int j = bit, k = count; j < n; ++j) {
      if ((j & bit) != 0) c.copy(cut.in(rotated, j), cut.in(packed, k++));
    }
  }
  for (int j = 0; j < n; ++j) c.copy(cut.in(into, around(rank, -j, n)), cut.in(rotated, j));
}

}  // namespace tandem::detail
