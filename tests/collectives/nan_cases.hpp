#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <tandem/collectives.hpp>
#include <vector>

#include "collectives/slow.hpp"

namespace tandem::test {

inline constexpr data_type floating_types[] = {data_type::float32,     data_type::float64,
                                               data_type::float16,     data_type::bfloat16,
                                               data_type::float8_e4m3, data_type::float8_e5m2};
inline constexpr reduce_op extremes[] = {reduce_op::minimum, reduce_op::maximum};

inline constexpr collective combining[] = {collective::all_reduce, collective::reduce,
                                           collective::reduce_scatter};

/// Bit patterns of a floating-point type by its standard.
struct float_patterns {
  element sign, one;
  element greatest;  ///< infinity; for e4m3, which has none, the greatest number
  /// The first is the canonical NaN of results; the others have a sign, are signalling or have a
  /// payload.
  std::vector<element> nans;

  bool is_nan(element e) const { return (e & ~sign) > greatest; }
  /// By the order of IEEE 754-2019, in which -0 is less than +0.
  std::int64_t key(element e) const {
    const auto magnitude = static_cast<std::int64_t>(e & ~sign);
    return (e & sign) != 0 ? -1 - magnitude : magnitude;
  }
};

inline float_patterns patterns_of(data_type type) {
  switch (type) {
    case data_type::float32:
      return {0x8000'0000,
              0x3f80'0000,
              0x7f80'0000,
              {0x7fc0'0000, 0xffc0'0000, 0x7f80'0001, 0xffff'ffff}};
    case data_type::float64:
      return {element{1} << 63,
              0x3ff0'0000'0000'0000,
              0x7ff0'0000'0000'0000,
              {0x7ff8'0000'0000'0000, 0xfff8'0000'0000'0000, 0x7ff0'0000'0000'0001, ~element{0}}};
    case data_type::float16:
      return {0x8000, 0x3c00, 0x7c00, {0x7e00, 0xfe00, 0x7c01, 0xffff}};
    case data_type::bfloat16:
      return {0x8000, 0x3f80, 0x7f80, {0x7fc0, 0xffc0, 0x7f81, 0xffff}};
    case data_type::float8_e4m3:
      return {0x80, 0x38, 0x7e, {0x7f, 0xff}};
    case data_type::float8_e5m2:
      return {0x80, 0x3c, 0x7c, {0x7e, 0xfe, 0x7d, 0xff}};
    default:
      throw std::logic_error("no floating-point type");
  }
}

/// Inputs of the ranks to a minimum or maximum, and the expected result: NaN on no rank, on each
/// one, on two neighbours, on all but one and on all; among numbers, next to an infinity of either
/// sign, and among zeros of both signs. One case per index, repeated.
class nan_cases {
 public:
  nan_cases(data_type type, int ranks)
      : bits_(patterns_of(type)), ranks_(static_cast<std::size_t>(ranks)) {}

  /// Number of different cases.
  std::size_t count() const { return ranks_ * relations * surroundings * kinds; }

  element input(int rank, std::size_t index) const {
    const auto r = static_cast<std::size_t>(rank);
    const std::size_t distance = (r + ranks_ - index % ranks_) % ranks_;
    index /= ranks_;
    const std::size_t relation = index % relations, around = index / relations % surroundings;
    const std::size_t kind = index / relations / surroundings % kinds;
    const bool has_nan[relations] = {false, distance == 0, distance <= 1, distance != 0, true};
    if (has_nan[relation]) return bits_.nans[(kind + r) % bits_.nans.size()];
    const element number = (bits_.one + r) | (r % 2 == 1 ? bits_.sign : 0);
    const bool is_next = distance == 1 % ranks_;
    const element all[surroundings] = {number, is_next ? bits_.greatest : number,
                                       is_next ? bits_.greatest | bits_.sign : number,
                                       is_next ? bits_.sign : 0, is_next ? 0 : bits_.sign};
    return all[around];
  }

  element expected(reduce_op op, std::size_t index) const {
    element extreme = input(0, index);
    if (ranks_ == 1) return extreme;
    bool is_nan = bits_.is_nan(extreme);
    for (std::size_t r = 1; r < ranks_; ++r) {
      const element next = input(static_cast<int>(r), index);
      is_nan = is_nan || bits_.is_nan(next);
      const bool is_less = bits_.key(next) < bits_.key(extreme);
      if (is_less == (op == reduce_op::minimum)) extreme = next;
    }
    return is_nan ? bits_.nans[0] : extreme;
  }

 private:
  static constexpr std::size_t relations = 5, surroundings = 5, kinds = 4;

  const float_patterns bits_;
  const std::size_t ranks_;
};

}  // namespace tandem::test
