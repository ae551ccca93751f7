#include "reduce/reducer.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "collectives/slow.hpp"

namespace tandem::detail {
namespace {

using test::all_ops;
using test::all_types;

TEST(DataTypes, HaveNamesAndLengths) {
  EXPECT_EQ(name(data_type::float8_e4m3), "float8_e4m3");
  EXPECT_EQ(name(data_type::uint16), "uint16");
  EXPECT_EQ(name(reduce_op::premultiplied_sum), "premultiplied_sum");
  EXPECT_EQ(name(static_cast<data_type>(14)), "unknown type");
  EXPECT_EQ(name(static_cast<reduce_op>(9)), "unknown operation");
  EXPECT_EQ(bytes_of(static_cast<data_type>(14)), 0u);
  for (const data_type type : all_types) {
    // The digits before an underscore are the number of bits.
    const std::string_view text = name(type);
    const std::string bits(text.substr(text.find_first_of("0123456789")));
    EXPECT_EQ(bytes_of(type) * 8, std::stoul(bits)) << text;
  }
}

TEST(DataTypes, KeepTheirNumericValues) {
  EXPECT_EQ(static_cast<int>(data_type::float32), 0);
  EXPECT_EQ(static_cast<int>(data_type::float64), 1);
  EXPECT_EQ(static_cast<int>(data_type::int32), 2);
  EXPECT_EQ(static_cast<int>(data_type::int64), 3);
  EXPECT_EQ(static_cast<int>(reduce_op::sum), 0);
  EXPECT_EQ(static_cast<int>(reduce_op::maximum), 3);
}

TEST(DataTypes, HaveBitOperationsOnlyForIntegers) {
  for (const data_type type : all_types) {
    for (const reduce_op op : all_ops) {
      const bool of_bits = name(op).front() == 'b';
      EXPECT_EQ(is_defined(type, op), !of_bits || test::is_integer(type))
          << name(op) << " of " << name(type);
    }
    EXPECT_FALSE(is_defined(type, static_cast<reduce_op>(9)));
  }
  EXPECT_FALSE(is_defined(static_cast<data_type>(14), reduce_op::sum));
}

TEST(Factors, MustBeRepresentable) {
  EXPECT_TRUE(is_factor(data_type::int8, 127));
  EXPECT_TRUE(is_factor(data_type::int8, -128));
  EXPECT_FALSE(is_factor(data_type::int8, 128));
  EXPECT_FALSE(is_factor(data_type::int8, -129));
  EXPECT_FALSE(is_factor(data_type::int8, 0.5));
  EXPECT_TRUE(is_factor(data_type::uint8, 255));
  EXPECT_FALSE(is_factor(data_type::uint8, -1));
  EXPECT_FALSE(is_factor(data_type::uint8, 256));
  EXPECT_TRUE(is_factor(data_type::int64, -0x1p63));
  EXPECT_FALSE(is_factor(data_type::int64, 0x1p63));
  EXPECT_TRUE(is_factor(data_type::uint64, 0x1p63));
  EXPECT_FALSE(is_factor(data_type::uint64, 0x1p64));
  EXPECT_FALSE(is_factor(data_type::int32, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(is_factor(data_type::int32, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(is_factor(data_type::float64, 1e300));
  EXPECT_FALSE(is_factor(data_type::float32, 1e300));
  EXPECT_FALSE(is_factor(data_type::float16, -1e300));
  EXPECT_TRUE(is_factor(data_type::float8_e4m3, 0.125));
  EXPECT_TRUE(is_factor(data_type::bfloat16, std::numeric_limits<double>::infinity()));
}

/// Integers that are no sum of others show which operands were combined.
TEST(Reducer, CombinesIntoEitherOperandOrThird) {
  const reducer by(data_type::int32, reduce_op::sum, 2);
  const std::int32_t one = 1, ten = 10;
  std::int32_t into = 100;
  by.combine_before(&into, &one, sizeof(into));
  EXPECT_EQ(into, 101);
  by.combine_after(&into, &ten, sizeof(into));
  EXPECT_EQ(into, 111);
  by.combine(&into, &one, &ten, sizeof(into));
  EXPECT_EQ(into, 11);
}

/// NaN and signed zeros in either operand.
TEST(Reducer, PreservesNanAndZeroSign) {
  const auto combined = [](reduce_op op, float a, float b) {
    const reducer by(data_type::float32, op, 2);
    float before = b, after = a, apart = 0;
    by.combine_before(&before, &a, sizeof(a));
    by.combine_after(&after, &b, sizeof(b));
    by.combine(&apart, &a, &b, sizeof(a));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(before), std::bit_cast<std::uint32_t>(apart));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(after), std::bit_cast<std::uint32_t>(apart));
    return std::bit_cast<std::uint32_t>(apart);
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const auto negative_nan = std::bit_cast<float>(0xffc0'1234);
  for (const reduce_op op : {reduce_op::minimum, reduce_op::maximum}) {
    for (const float other : {0.0f, 3.0f, -3.0f, infinity, -infinity, negative_nan}) {
      EXPECT_EQ(combined(op, negative_nan, other), 0x7fc0'0000U) << name(op) << " " << other;
      EXPECT_EQ(combined(op, other, negative_nan), 0x7fc0'0000U) << name(op) << " " << other;
    }
  }
  EXPECT_EQ(combined(reduce_op::minimum, 0.0f, -0.0f), 0x8000'0000U);
  EXPECT_EQ(combined(reduce_op::minimum, -0.0f, 0.0f), 0x8000'0000U);
  EXPECT_EQ(combined(reduce_op::maximum, 0.0f, -0.0f), 0U);
  EXPECT_EQ(combined(reduce_op::maximum, -0.0f, 0.0f), 0U);
}

TEST(Reducer, MultipliesFirstOnlyForAPremultipliedSum) {
  const std::vector<std::int16_t> from{1, -2, 30'000};
  std::vector<std::int16_t> into(3);
  const reducer times(data_type::int16, premultiplied_sum(-3), 2);
  times.prepare(into.data(), from.data(), 6);
  EXPECT_EQ(into, (std::vector<std::int16_t>{-3, 6, -24'464}));
  times.prepare(mutable_view(into));
  EXPECT_EQ(into, (std::vector<std::int16_t>{9, -18, 7'856}));
  times.finish(mutable_view(into));
  EXPECT_EQ(into, (std::vector<std::int16_t>{9, -18, 7'856}));

  const reducer sum(data_type::int16, {reduce_op::sum, -3}, 2);
  sum.prepare(into.data(), from.data(), 6);
  EXPECT_EQ(into, from);
  sum.prepare(mutable_view(into));
  EXPECT_EQ(into, from);
}

TEST(Reducer, DividesAtTheEndOnlyForAnAverage) {
  std::vector<std::int8_t> sums{7, -7, 100, -128};
  const reducer by(data_type::int8, reduce_op::average, 3);
  EXPECT_EQ(by.element_bytes(), 1u);
  by.prepare(mutable_view(sums));
  by.finish(mutable_view(sums));
  EXPECT_EQ(sums, (std::vector<std::int8_t>{2, -2, 33, -42}));
  const double infinity = std::numeric_limits<double>::infinity();
  const double greatest = std::numeric_limits<double>::max();
  std::vector<double> exact{1, -1, infinity, greatest};
  const reducer of_three(data_type::float64, reduce_op::average, 3);
  EXPECT_TRUE(of_three.prepares());
  of_three.prepare(mutable_view(exact));
  EXPECT_EQ(exact, (std::vector<double>{0.125, -0.125, infinity, greatest / 8}));
  of_three.finish(mutable_view(exact));
  EXPECT_EQ(exact, (std::vector<double>{1.0 / 3, -1.0 / 3, infinity, greatest / 8 / 0.375}));
  reducer(data_type::float64, reduce_op::sum, 3).finish(mutable_view(exact));
  EXPECT_EQ(exact[0], 1.0 / 3);
}

/// In the order that rounds the sums of three, five, ... of the greatest number up, too.
TEST(Reducer, AverageOfFiniteNumbersIsFinite) {
  for (const data_type type : all_types) {
    if (test::is_integer(type)) continue;
    const test::element greatest = test::greatest_finite(type);
    const test::element sign = test::element{1} << (8 * bytes_of(type) - 1);
    for (const test::element number : {greatest, greatest | sign, greatest - 1, greatest / 2}) {
      for (int ranks = 1; ranks <= 130; ++ranks) {
        const reducer by(type, reduce_op::average, ranks);
        std::vector<std::byte> own = test::packed(type, {number});
        by.prepare(mutable_view(own));
        std::vector<std::byte> sum = own;
        for (int r = 1; r < ranks; ++r) by.combine_after(sum.data(), own.data(), own.size());
        by.finish(mutable_view(sum));
        const double average = test::slow_value(type, test::unpacked(type, sum.data(), 1)[0]);
        const double expected = test::slow_value(type, number);
        ASSERT_TRUE(std::isfinite(average)) << name(type) << ", " << ranks << " ranks";
        // Each step may round.
        if (bytes_of(type) >= 4) {
          ASSERT_NEAR(average / expected, 1, ranks * 0x1p-23) << name(type) << ", " << ranks;
        }
      }
    }
  }
}

TEST(Reducer, WorksWithEachInstructionSet) {
  for (const instruction_set which : instruction_sets) {
    const kernel_table* const table = kernels_for(which);
    if (table == nullptr) continue;
    std::vector<std::uint8_t> into{1, 2, 3}, other{7, 7, 7};
    reducer(data_type::uint8, reduce_op::bxor, 2, *table)
        .combine_before(into.data(), other.data(), 3);
    EXPECT_EQ(into, (std::vector<std::uint8_t>{6, 5, 4})) << name(which);
  }
}

}  // namespace
}  // namespace tandem::detail
