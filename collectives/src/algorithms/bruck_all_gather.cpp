#include <algorithm>
#include <bit>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> bruck_all_gather(call& c, const_view mine, mutable_view all, blocks cut) {
  const int n = c.in->size();
  if (n == 2) {  // one exchange, no rotation
    const int other = 1 - c.in->rank();
    c.at("bruck", 0, 1);
    c.copy(cut.in(all, c.in->rank()), mine);
    const mutable_view theirs = cut.in(all, other);
    if (!exchanged(c, other, mine, theirs)) co_await exchange(c, other, mine, other, theirs);
    co_return;
  }
  const int rank = c.in->rank();
  // Block j of the scratch is that of the rank j ahead, so the gathered blocks are contiguous.
  const auto bytes_ahead = [&](int first, int count) {
    const int end = first + count;
    if (end <= n) return cut.offset(end) - cut.offset(first);
    return cut.total() - cut.offset(first) + cut.offset(end - n);
  };
  const mutable_view rotated = c.scratch(0, cut.total());
  c.copy(rotated.part(0, mine.bytes), mine);
  const int rounds = std::bit_width(static_cast<unsigned>(n - 1));
  for (int round = 0; round < rounds; ++round) {
    c.at("bruck", round, rounds);
    const int distance = 1 << round;
    const int count = std::min(distance, n - distance);
    const int from = around(rank, distance, n);
    const int to = around(rank, -distance, n);
    const const_view given = rotated.part(0, bytes_ahead(rank, count));
    const mutable_view got = rotated.part(bytes_ahead(rank, distance), bytes_ahead(from, count));
    co_await exchange(c, to, given, from, got);
  }
  const std::size_t to_end = cut.total() - cut.offset(rank);
  c.copy(all.part(cut.offset(rank), to_end), rotated.part(0, to_end));
  const std::size_t rest = cut.offset(rank);
  c.copy(all.part(0, rest), rotated.part(to_end, rest));
}

}  // namespace tandem::detail
