#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <tandem/collectives.hpp>
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
  // For numbers other than NaN; -0 is less than +0.
  const bool is_less = a < b || (a == b && std::signbit(static_cast<double>(a)));
  if (op == reduce_op::minimum) return is_less ? a : b;
  if (op == reduce_op::maximum) return is_less ? b : a;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    const U x = static_cast<U>(a), y = static_cast<U>(b);
    return static_cast<T>(op == reduce_op::sum ? x + y : x * y);
  } else {
    return op == reduce_op::sum ? a + b : a * b;
  }
}

/// Inputs of each rank: floating-point values near 1, whose sums and products round differently in
/// any other order; zeros of both signs, which a minimum distinguishes; and integers of full range,
/// which wrap around.
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

/// Recursive doubling of one element over `x[first]` to `x[first + count - 1]`: pairs, pairs of
/// pairs and so on. @pre count is a power of two.
template <class T, class Combine>
T by_doubling(const Combine& combine, const std::vector<T>& x, std::size_t first,
              std::size_t count) {
  if (count == 1) return x[first];
  return combine(by_doubling(combine, x, first, count / 2),
                 by_doubling(combine, x, first + count / 2, count / 2));
}

/// The ranks of a folded group: the combined pairs first, then the others.
template <class T, class Combine>
std::vector<T> folded(const Combine& combine, const std::vector<T>& x) {
  const std::size_t joined = x.size() - std::bit_floor(x.size());
  std::vector<T> left;
  for (std::size_t r = 0; r < x.size(); ++r) {
    if (r < 2 * joined && r % 2 == 1) {
      left.back() = combine(left.back(), x[r]);
    } else {
      left.push_back(x[r]);
    }
  }
  return left;
}

/// `count` elements of x from `first` on around the ring, the running result on the left.
template <class T, class Combine>
T around_circle(const Combine& combine, const std::vector<T>& x, std::size_t first) {
  T result = x[first % x.size()];
  for (std::size_t k = 1; k < x.size(); ++k) {
    result = combine(result, x[(first + k) % x.size()]);
  }
  return result;
}

/// Up a binomial tree: v and up to `size` ranks after it, as far as they exist.
template <class T, class Combine>
T up_tree(const Combine& combine, const std::vector<T>& x, std::size_t v, std::size_t size) {
  if (size == 1) return x[v];
  const T own = up_tree(combine, x, v, size / 2);
  if (v + size / 2 >= x.size()) return own;
  return combine(own, up_tree(combine, x, v + size / 2, size / 2));
}

/// First with the partner at distance half of the ranks, then a quarter and so on.
template <class T, class Combine>
T by_halving(const Combine& combine, std::vector<T> x) {
  while (x.size() > 1) {
    const std::size_t half = x.size() / 2;
    for (std::size_t i = 0; i < half; ++i) x[i] = combine(x[i], x[i + half]);
    x.resize(half);
  }
  return x[0];
}

/// One element of the inputs `x`, combined in the documented order of an algorithm. `where`: the
/// root of reduce, else the segment or block of the element.
template <class T, class Combine>
T combined(const Combine& combine, collective what, algorithm how, const std::vector<T>& x,
           std::size_t where) {
  if (what == collective::reduce) {
    std::vector<T> turned(x);
    std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(where), turned.end());
    if (how == algorithm::tree || how == algorithm::board)
      return up_tree(combine, turned, 0, std::bit_ceil(x.size()));
    T result = turned.back();
    for (std::size_t i = x.size() - 1; i-- > 0;) result = combine(turned[i], result);
    return result;
  }
  if (what == collective::reduce_scatter) {
    if (how == algorithm::halving_doubling) return by_halving(combine, folded(combine, x));
    return around_circle(combine, x, where + 1);
  }
  if (how == algorithm::ring) return around_circle(combine, x, where);
  const std::vector<T> left = folded(combine, x);
  return by_doubling(combine, left, 0, left.size());
}

/// The segment of a ring that contains an element.
inline std::size_t segment_of(std::size_t index, std::size_t count, std::size_t ranks) {
  std::size_t s = 0;
  while (index >= count * (s + 1) / ranks) ++s;
  return s;
}

/// `all` data, by rank, combined element by element in the documented order of all_reduce.
template <class T, class Combine>
std::vector<T> in_documented_order(const Combine& combine, algorithm how,
                                   const std::vector<std::vector<T>>& all) {
  const std::size_t n = all.size();
  const std::size_t count = all[0].size();
  std::vector<T> result(count);
  for (std::size_t e = 0; e < count; ++e) {
    std::vector<T> x;
    for (const std::vector<T>& of_rank : all) x.push_back(of_rank[e]);
    result[e] = combined(combine, collective::all_reduce, how, x, segment_of(e, count, n));
  }
  return result;
}

/// Expected result of all_reduce on `data_of` each rank.
template <class T>
std::vector<T> reference(reduce_op op, algorithm how, int ranks, std::size_t count) {
  std::vector<std::vector<T>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(data_of<T>(r, count));
  return in_documented_order([op](T a, T b) { return apply(op, a, b); }, how, all);
}

}  // namespace tandem::test
