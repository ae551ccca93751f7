#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <tandem/collectives/collectives.hpp>
#include <type_traits>
#include <vector>

namespace tandem::test {

template <class T>
constexpr data_type type_of = std::is_same_v<T, float>          ? data_type::float32
                              : std::is_same_v<T, double>       ? data_type::float64
                              : std::is_same_v<T, std::int32_t> ? data_type::int32
                                                                : data_type::int64;

template <class T>
T apply(reduce_op op, T a, T b) {
  if (op == reduce_op::minimum) return b < a ? b : a;
  if (op == reduce_op::maximum) return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    const U x = static_cast<U>(a), y = static_cast<U>(b);
    return static_cast<T>(op == reduce_op::sum ? x + y : x * y);
  } else {
    return op == reduce_op::sum ? a + b : a * b;
  }
}

/// What each rank brings: floating-point values near 1, whose sums and products round differently
/// in any other order, zeros of both signs, which tell the operands of a minimum apart, and
/// integers of full range, which wrap around.
template <class T>
std::vector<T> data_of(int rank, std::size_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 7919 + count);
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    T& x = data[i];
    if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(random());
    } else {
      x = static_cast<T>(0.5 + static_cast<double>(random() >> 11) * 0x1p-53);
      if (i % 16 == 5) x = 0;
      if (random() % 4 == 0) x = -x;
    }
  }
  return data;
}

/// Of one element: pairs, pairs of pairs... of `x[first]` to `x[first + count - 1]`, count a power
/// of two.
template <class T, class Combine>
T by_doubling(const Combine& combine, const std::vector<T>& x, std::size_t first,
              std::size_t count) {
  if (count == 1) return x[first];
  return combine(by_doubling(combine, x, first, count / 2),
                 by_doubling(combine, x, first + count / 2, count / 2));
}

/// `all` data, by rank, combined in the order that all_reduce's documentation states, one element
/// after the other.
template <class T, class Combine>
std::vector<T> in_documented_order(const Combine& combine, all_reduce_algorithm how,
                                   const std::vector<std::vector<T>>& all) {
  const std::size_t n = all.size();
  const std::size_t count = all[0].size();
  const std::size_t joined = n - std::bit_floor(n);
  std::vector<T> result(count);
  for (std::size_t e = 0; e < count; ++e) {
    std::vector<T> x;
    if (how == all_reduce_algorithm::ring) {
      std::size_t s = 0;
      while (e >= count * (s + 1) / n) ++s;
      result[e] = all[s][e];
      for (std::size_t k = 1; k < n; ++k) result[e] = combine(result[e], all[(s + k) % n][e]);
      continue;
    }
    for (std::size_t r = 0; r < n; ++r) {
      if (r < 2 * joined && r % 2 == 1) {
        x.back() = combine(x.back(), all[r][e]);
      } else {
        x.push_back(all[r][e]);
      }
    }
    result[e] = by_doubling(combine, x, 0, x.size());
  }
  return result;
}

/// What all_reduce makes of `data_of` each rank.
template <class T>
std::vector<T> reference(reduce_op op, all_reduce_algorithm how, int ranks, std::size_t count) {
  std::vector<std::vector<T>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(data_of<T>(r, count));
  return in_documented_order([op](T a, T b) { return apply(op, a, b); }, how, all);
}

}  // namespace tandem::test
