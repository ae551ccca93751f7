// Kernels of every instruction set compared with scalar arithmetic.
#include "reduce/kernels.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "collectives/nan_cases.hpp"
#include "collectives/slow.hpp"
#include "support/device_kernels.hpp"

namespace tandem::detail {
namespace {

using test::all_ops;
using test::all_types;
using test::element;

std::size_t at(data_type type) {
  return static_cast<std::size_t>(type);
}
std::size_t at(reduce_op op) {
  return static_cast<std::size_t>(op);
}

/// The kernels of an instruction set, or those of devices.
struct tested {
  std::string_view name;
  const kernel_table* table;
};

std::vector<tested> all_tested() {
  std::vector<tested> all;
  for (const instruction_set which : instruction_sets) {
    all.push_back({name(which), kernels_for(which)});
  }
  all.push_back({"device", &test::device_kernel_table()});
  return all;
}

class Kernels : public testing::TestWithParam<tested> {
 protected:
  void SetUp() override {
    table = GetParam().table;
    if (table == nullptr) GTEST_SKIP() << "this processor has no " << GetParam().name;
  }

  std::vector<element> combined(data_type type, reduce_op op, const std::vector<element>& a,
                                const std::vector<element>& b) const {
    std::vector<std::byte> into(a.size() * bytes_of(type));
    table->combine[at(type)][at(op)](into.data(), test::packed(type, a).data(),
                                     test::packed(type, b).data(), a.size());
    return test::unpacked(type, into.data(), a.size());
  }

  void expect_combined(data_type type, reduce_op op, const std::vector<element>& a,
                       const std::vector<element>& b) const {
    const std::vector<element> got = combined(type, op, a, b);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(got[i], test::slow_combine(type, op, a[i], b[i])) << fmt::format(
          "{} of {}: {:#x} and {:#x} give {:#x}", name(op), name(type), a[i], b[i], got[i]);
    }
  }
  void expect_combined(data_type type, const std::vector<element>& a,
                       const std::vector<element>& b) const {
    for (const reduce_op op : all_ops) {
      if (is_defined(type, op)) expect_combined(type, op, a, b);
      if (HasFatalFailure()) return;
    }
  }

  template <class Slow>
  void expect_scaled(scale_kernel kernel, Slow slow, data_type type, double by,
                     const std::vector<element>& a) const {
    std::vector<std::byte> data = test::packed(type, a);
    kernel(data.data(), data.data(), a.size(), by);
    const std::vector<element> got = test::unpacked(type, data.data(), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(got[i], slow(a[i]))
          << fmt::format("{}: {:#x} by {} gives {:#x}", name(type), a[i], by, got[i]);
    }
  }
  void expect_multiplied(data_type type, double by, const std::vector<element>& a) const {
    const auto slow = [&](element e) { return test::slow_multiply(type, e, by); };
    expect_scaled(table->multiply[at(type)], slow, type, by, a);
  }
  void expect_divided(data_type type, double by, const std::vector<element>& a) const {
    const auto slow = [&](element e) { return test::slow_divide(type, e, by); };
    expect_scaled(table->divide[at(type)], slow, type, by, a);
  }

  const kernel_table* table = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Of, Kernels, testing::ValuesIn(all_tested()),
                         [](const auto& of) { return std::string(of.param.name); });

/// All elements of a type of at most 16 bits; else special and ordinary ones.
std::vector<element> many(data_type type) {
  if (bytes_of(type) <= 2) return test::every_element(type);
  std::vector<element> elements = test::special_elements(type);
  const std::vector<element> random = test::random_elements(type, 4000, 5);
  elements.insert(elements.end(), random.begin(), random.end());
  return elements;
}

TEST_P(Kernels, ExistForEveryDefinedCombination) {
  for (const data_type type : all_types) {
    for (const reduce_op op : all_ops) {
      EXPECT_EQ(table->combine[at(type)][at(op)] != nullptr, is_defined(type, op))
          << name(op) << " of " << name(type);
    }
    EXPECT_NE(table->multiply[at(type)], nullptr);
    EXPECT_NE(table->divide[at(type)], nullptr);
  }
}

TEST_P(Kernels, CombineEveryPairOf8Bits) {
  for (const data_type type : all_types) {
    if (bytes_of(type) != 1) continue;
    std::vector<element> a, b;
    for (element i = 0; i < 65536; ++i) {
      a.push_back(i / 256);
      b.push_back(i % 256);
    }
    ASSERT_NO_FATAL_FAILURE(expect_combined(type, a, b));
  }
}

TEST_P(Kernels, CombineEveryPairOfSpecialElements) {
  for (const data_type type : all_types) {
    const std::vector<element> special = test::special_elements(type);
    std::vector<element> a, b;
    for (const element x : special) {
      a.insert(a.end(), special.size(), x);
      b.insert(b.end(), special.begin(), special.end());
    }
    ASSERT_NO_FATAL_FAILURE(expect_combined(type, a, b));
  }
}

/// Expected bits are constants: NaNs of every kind combined with each other and with numbers,
/// infinities and zeros, in either order, in vectors and as single elements.
TEST_P(Kernels, PreserveNanAndZeroSignInMinimum) {
  for (const data_type type : test::floating_types) {
    const test::float_patterns of = test::patterns_of(type);
    std::vector<element> some{
        0, of.sign, of.one, of.one | of.sign, of.greatest, of.greatest | of.sign};
    some.insert(some.end(), of.nans.begin(), of.nans.end());
    for (const reduce_op op : test::extremes) {
      std::vector<element> a, b, wanted;
      for (const element x : some) {
        for (const element y : some) {
          const bool takes_x = (of.key(x) < of.key(y)) == (op == reduce_op::minimum);
          a.push_back(x);
          b.push_back(y);
          wanted.push_back(of.is_nan(x) || of.is_nan(y) ? of.nans[0] : takes_x ? x : y);
          ASSERT_EQ(combined(type, op, {x}, {y})[0], wanted.back())
              << fmt::format("{} of {} {:#x} and {:#x}", name(op), name(type), x, y);
        }
      }
      EXPECT_EQ(combined(type, op, a, b), wanted) << name(op) << " of " << name(type);
      EXPECT_EQ(combined(type, op, b, a), wanted) << name(op) << " of " << name(type);
    }
  }
}

TEST_P(Kernels, CombineRandomBits) {
  for (const data_type type : all_types) {
    const std::vector<element> a = many(type);
    std::vector<element> b = a;
    std::shuffle(b.begin(), b.end(), std::mt19937_64(7));
    ASSERT_NO_FATAL_FAILURE(expect_combined(type, a, b));
    // Close operands, where sums cancel.
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = a[i] ^ (b[i] & 7);
    ASSERT_NO_FATAL_FAILURE(expect_combined(type, a, b));
  }
}

TEST_P(Kernels, ConvertEveryNumberToFloat32AndBack) {
  for (const data_type type :
       {data_type::float16, data_type::bfloat16, data_type::float8_e4m3, data_type::float8_e5m2}) {
    const std::vector<element> all = test::every_element(type);
    std::vector<std::byte> data = test::packed(type, all);
    table->multiply[at(type)](data.data(), data.data(), all.size(), 1);
    const std::vector<element> got = test::unpacked(type, data.data(), all.size());
    for (const element e : all) {
      const bool is_nan = test::slow_value(type, e) != test::slow_value(type, e);
      const element nan = test::slow_nearest(type, __builtin_nanf(""));
      ASSERT_EQ(got[e], is_nan ? nan : e) << fmt::format("{} {:#x}", name(type), e);
    }
  }
}

TEST_P(Kernels, Multiply) {
  for (const data_type type : all_types) {
    const std::vector<element> a = many(type);
    for (const double by : {0.0, 1.0, 2.0, 3.0, 100.0}) {
      ASSERT_NO_FATAL_FAILURE(expect_multiplied(type, by, a));
    }
    if (test::is_integer(type)) {
      double most = type == data_type::uint64 ? 0x1p63 : 200;
      if (test::is_signed(type)) most = type == data_type::int64 ? -0x1p63 : -7;
      ASSERT_NO_FATAL_FAILURE(expect_multiplied(type, most, a));
      continue;
    }
    // These round at every bit, become subnormal and overflow. The last is NaN with all bits set.
    for (const double by :
         {0.1, -1.0 / 3, 0.75, 0x1.0002p0, 0x1p-4, 1.1e-5, 3e-40, 12345.678, 1e30,
          static_cast<double>(__builtin_inff()), std::bit_cast<double>(~std::uint64_t{0})}) {
      ASSERT_NO_FATAL_FAILURE(expect_multiplied(type, by, a));
    }
  }
}

TEST_P(Kernels, Divide) {
  for (const data_type type : all_types) {
    const std::vector<element> a = many(type);
    for (const double by : {1.0, 2.0, 3.0, 7.0, 10.0, 255.0, 1000.0, 4097.0, 0x1p24}) {
      ASSERT_NO_FATAL_FAILURE(expect_divided(type, by, a));
    }
    if (test::is_integer(type)) continue;
    // Quotients that overflow are limited, those of infinities are not.
    for (const double by : {0.5, 0.75, 0x1.000002p-1, 129.0 / 256}) {
      ASSERT_NO_FATAL_FAILURE(expect_divided(type, by, a));
    }
  }
}

/// Every number of a narrow type, by counts of ranks.
TEST_P(Kernels, DivideEveryNarrowNumber) {
  for (const data_type type :
       {data_type::float16, data_type::bfloat16, data_type::float8_e4m3, data_type::float8_e5m2}) {
    const std::size_t numbers = std::size_t{1} << 8 * bytes_of(type);
    std::vector<element> all(numbers);
    for (std::size_t i = 0; i < numbers; ++i) std::memcpy(&all[i], &i, bytes_of(type));
    std::vector<double> counts{23,   49,   127,  255,  257,  341, 1021,
                               1023, 2047, 2731, 3277, 4095, 4096};
    for (int count = 2; count < 20; ++count) counts.push_back(count);
    for (const double by : counts) ASSERT_NO_FATAL_FAILURE(expect_divided(type, by, all));
  }
}

/// The least number whose quotient is the greatest finite one.
element least_with_greatest_quotient(data_type type, double by) {
  element below = 0, least = test::greatest_finite(type);
  while (least - below > 1) {
    const element middle = below + (least - below) / 2;
    const bool is_greatest = test::slow_divide(type, middle, by) == test::greatest_finite(type);
    (is_greatest ? least : below) = middle;
  }
  return least;
}

TEST_P(Kernels, DivideNumbersNearTheGreatestQuotient) {
  std::vector<double> divisors{0.5, 0x1.000002p-1, 0.9999999, 0.99999994, 0.9999999999, 1.0000001};
  for (int ranks = 3; ranks < 20; ++ranks) {
    divisors.push_back(ranks / std::exp2(std::bit_width(2U * static_cast<unsigned>(ranks) - 1)));
  }
  for (const data_type type : all_types) {
    if (test::is_integer(type)) continue;
    const element sign = element{1} << (8 * bytes_of(type) - 1);
    for (const double by : divisors) {
      std::vector<element> near;
      const element edge = least_with_greatest_quotient(type, by);
      for (element number = edge - 6; number <= edge + 6; ++number) {
        // Each alone in whole vectors, whose decision it is then.
        near.insert(near.end(), 512, number);
        near.insert(near.end(), 512, number | sign);
      }
      ASSERT_NO_FATAL_FAILURE(expect_divided(type, by, near)) << by;
    }
  }
}

element one_of(data_type type) {
  if (type == data_type::float64) return std::bit_cast<element>(1.0);
  return type == data_type::float32 ? 0x3f80'0000 : test::slow_nearest(type, 1);
}

TEST_P(Kernels, DivideWithOneGreatNumberAtAnyPlace) {
  constexpr std::size_t count = 600;
  constexpr double by = 0.375;
  for (const data_type type : all_types) {
    if (test::is_integer(type)) continue;
    const element greatest = test::greatest_finite(type), one = one_of(type);
    const element sign = element{1} << (8 * bytes_of(type) - 1);
    std::vector<element> data(count, one), expected(count, test::slow_divide(type, one, by));
    for (std::size_t place = 0; place < count; ++place) {
      data[place] = expected[place] = place % 2 == 0 ? greatest : greatest | sign;
      const std::vector<std::byte> from = test::packed(type, data);
      std::vector<std::byte> into(from.size());
      table->divide[at(type)](into.data(), from.data(), count, by);
      ASSERT_EQ(test::unpacked(type, into.data(), count), expected) << name(type) << ' ' << place;
      data[place] = one;
      expected[place] = expected[place == 0 ? 1 : 0];
    }
  }
}

struct placement {
  const char* words;
  bool into_a, into_b, same;
};

TEST_P(Kernels, HandleAnyCountAlignmentAndOverlap) {
  const placement placements[] = {{"apart", false, false, false},
                                  {"into a", true, false, false},
                                  {"into b", false, true, false},
                                  {"a and b the same", false, false, true},
                                  {"all the same", true, true, true}};
  std::vector<std::size_t> counts{127, 128, 129, 1000};
  for (std::size_t i = 0; i <= 70; ++i) counts.push_back(i);
  constexpr std::size_t margin = 8;
  for (const data_type type : all_types) {
    const std::vector<element> x = test::random_elements(type, 1000 + 2 * margin, 11);
    const std::vector<element> y = test::random_elements(type, 1000 + 2 * margin, 12);
    const reduce_op op = test::is_integer(type) ? reduce_op::product : reduce_op::sum;
    for (const placement& where : placements) {
      for (const std::size_t count : counts) {
        const std::size_t offset = count % 5;
        std::vector<std::byte> a = test::packed(type, x);
        std::vector<std::byte> b = test::packed(type, y);
        std::vector<std::byte> c(a.size(), std::byte{0x5a});
        std::vector<std::byte>& into = where.into_a ? a : where.into_b ? b : c;
        const std::vector<std::byte> before = into;
        const std::size_t first = offset * bytes_of(type);
        std::byte* const second = (where.same ? a : b).data() + first;
        table->combine[at(type)][at(op)](into.data() + first, a.data() + first, second, count);
        std::vector<element> expected = test::unpacked(type, before.data(), x.size());
        for (std::size_t i = offset; i < offset + count; ++i) {
          expected[i] = test::slow_combine(type, op, x[i], where.same ? x[i] : y[i]);
        }
        ASSERT_EQ(test::unpacked(type, into.data(), x.size()), expected)
            << name(type) << ", " << count << " elements, " << where.words;
      }
    }
  }
}

TEST_P(Kernels, ScaleAnyCountWithOrWithoutInPlace) {
  for (const data_type type : all_types) {
    for (std::size_t count = 0; count <= 70; ++count) {
      const std::vector<element> a = test::random_elements(type, count + 1, 13);
      for (const bool in_place : {true, false}) {
        std::vector<std::byte> from = test::packed(type, a);
        std::vector<std::byte> apart = from;
        std::vector<std::byte>& into = in_place ? from : apart;
        table->multiply[at(type)](into.data(), from.data(), count, 3);
        table->divide[at(type)](into.data(), into.data(), count, 2);
        std::vector<element> expected = a;
        for (std::size_t i = 0; i < count; ++i) {
          expected[i] = test::slow_divide(type, test::slow_multiply(type, a[i], 3), 2);
        }
        ASSERT_EQ(test::unpacked(type, into.data(), count + 1), expected)
            << name(type) << ", " << count << " elements";
      }
    }
  }
}

TEST_P(Kernels, MatchPortableKernelsBitwise) {
  for (const data_type type : all_types) {
    // Not only random bits: exponents of wide types would rarely be close.
    std::vector<element> a = test::random_elements(type, 50'001, 17);
    std::vector<element> b = test::random_elements(type, 50'001, 18);
    const std::vector<element> special = test::special_elements(type);
    for (std::size_t i = 0; i < a.size(); i += 3) a[i] = special[i % special.size()];
    for (std::size_t i = 0; i < b.size(); i += 4) b[i] = special[i / 7 % special.size()];
    const std::vector<std::byte> x = test::packed(type, a), y = test::packed(type, b);
    std::vector<std::byte> one(x.size()), other(x.size());
    for (const reduce_op op : all_ops) {
      if (!is_defined(type, op)) continue;
      table->combine[at(type)][at(op)](one.data(), x.data(), y.data(), a.size());
      portable_kernels.combine[at(type)][at(op)](other.data(), x.data(), y.data(), a.size());
      EXPECT_EQ(one, other) << name(op) << " of " << name(type);
    }
  }
}

TEST(KernelChoice, IsWidestSupportedInstructionSet) {
  const kernel_table* widest = nullptr;
  for (const instruction_set which : instruction_sets) {
    if (const kernel_table* const table = kernels_for(which)) widest = table;
  }
  EXPECT_EQ(&kernels(), widest);
  EXPECT_EQ(kernels_for(instruction_set::portable), &portable_kernels);
  EXPECT_EQ(kernels_for(static_cast<instruction_set>(9)), nullptr);
}

}  // namespace
}  // namespace tandem::detail
