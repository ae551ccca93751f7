#include <bit>
#include <cstring>

#include "algorithms/algorithms.hpp"

namespace tandem::detail {

asio::awaitable<void> bruck_all_to_all(call& c, const_view from, mutable_view into, blocks cut) {
  const int n = c.in->size();
  const int rank = c.in->rank();
  const std::size_t each = cut.bytes(0);
  const auto copy = [each](std::byte* to, const void* what) { std::memcpy(to, what, each); };
  // Block j has to go j ranks ahead; in the round of bit k all with that bit go 2^k of it.
  std::byte* const turned = c.scratch();
  std::byte* const packed = turned + cut.total();
  const auto at_place = [each](std::byte* base, int j) {
    return base + static_cast<std::size_t>(j) * each;
  };
  for (int j = 0; j < n; ++j) copy(at_place(turned, j), cut.in(from, around(rank, j, n)).data);
  const int rounds = std::bit_width(static_cast<unsigned>(n - 1));
  for (int round = 0; round < rounds; ++round) {
    c.at("bruck", round, rounds);
    const int bit = 1 << round;
    int count = 0;
    for (int j = bit; j < n; ++j) {
      if ((j & bit) != 0) copy(at_place(packed, count++), at_place(turned, j));
    }
    const int to = around(rank, bit, n);
    const int behind = around(rank, -bit, n);
    const std::size_t bytes = static_cast<std::size_t>(count) * each;
    const const_view given{packed, bytes};
    const mutable_view got{packed + bytes, bytes};
    co_await exchange(c, to, given, behind, got);
    for (int j = bit, k = count; j < n; ++j) {
      if ((j & bit) != 0) copy(at_place(turned, j), at_place(packed, k++));
    }
  }
  for (int j = 0; j < n; ++j) {
    const mutable_view place = cut.in(into, around(rank, -j, n));
    copy(static_cast<std::byte*>(place.data), at_place(turned, j));
  }
}

}  // namespace tandem::detail
