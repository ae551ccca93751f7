// all_reduce of every type and operation compared with the slow reference.
#include <gtest/gtest.h>

#include <cmath>
#include <tandem/collectives.hpp>

#include "collectives/inputs.hpp"
#include "collectives/job.hpp"
#include "collectives/reference.hpp"
#include "collectives/slow.hpp"

namespace tandem {
namespace {

using test::all_ops;
using test::all_types;
using test::element;
using test::elements_of;
using test::factor_of;
using test::job;

std::vector<element> expected_of(data_type type, reduce_op op, algorithm how,
                                 const std::vector<std::vector<element>>& inputs) {
  const int n = static_cast<int>(inputs.size());
  const auto combine = [&](element a, element b) { return test::slow_combine(type, op, a, b); };
  std::vector<element> result =
      test::in_documented_order(combine, how, test::prepared(type, op, inputs));
  for (element& e : result) e = test::finished(type, op, e, n);
  return result;
}

void expect_reduced(job& ranks, data_type type, reduce_op op, algorithm how, std::size_t count) {
  SCOPED_TRACE(fmt::format("{} {} of {} {} on {} ranks", name(how), name(op), count, name(type),
                           ranks.size()));
  std::vector<std::vector<element>> inputs;
  std::vector<std::vector<std::byte>> data;
  for (int r = 0; r < ranks.size(); ++r) {
    inputs.push_back(elements_of(type, r, count));
    data.push_back(test::packed(type, inputs.back()));
  }
  const std::string failed = ranks.run([&](int r) {
    const reduction what(op, factor_of(r));
    return all_reduce(ranks.world(r), data[static_cast<std::size_t>(r)], type, what, how);
  });
  ASSERT_EQ(failed, "");
  const std::vector<element> expected = expected_of(type, op, how, inputs);
  for (const std::vector<std::byte>& got : data) {
    ASSERT_EQ(test::unpacked(type, got.data(), count), expected);
  }
}

TEST(AllReduceTypes, EveryTypeWithEveryOperation) {
  for (const int n : {1, 2, 3, 6}) {
    job ranks(n, test::small_pieces());
    for (const data_type type : all_types) {
      for (const reduce_op op : all_ops) {
        if (!is_defined(type, op)) continue;
        for (const std::size_t count : {std::size_t{1}, std::size_t{2501}}) {
          expect_reduced(ranks, type, op, algorithm::ring, count);
          expect_reduced(ranks, type, op, algorithm::recursive_doubling, count);
          expect_reduced(ranks, type, op, algorithm::halving_doubling, count);
          expect_reduced(ranks, type, op, algorithm::direct, count);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(AllReduceTypes, UndefinedPairsAndFactorsAreRefused) {
  job ranks(2, test::small_pieces());
  std::vector<std::uint32_t> data[2] = {{1, 2}, {3, 4}};
  const auto refused = [&](data_type type, reduction what) {
    EXPECT_NE(ranks.run([&](int r) { return all_reduce(ranks.world(r), data[r], type, what); }),
              "hangs");
    EXPECT_EQ(ranks.code(0), errc::bad_input);
    EXPECT_EQ(ranks.code(1), errc::bad_input);
    return ranks.why(1).detail;
  };
  EXPECT_EQ(refused(data_type::float16, reduce_op::bxor), "all_reduce: no bxor of float16");
  EXPECT_EQ(refused(data_type::float32, reduce_op::band), "all_reduce: no band of float32");
  EXPECT_EQ(refused(data_type::uint32, premultiplied_sum(0.5)),
            "all_reduce: factor 0.5 is not valid for uint32");
  EXPECT_EQ(refused(data_type::bfloat16, premultiplied_sum(1e300)),
            "all_reduce: factor 1e+300 is not valid for bfloat16");
  EXPECT_EQ(refused(static_cast<data_type>(14), reduce_op::sum),
            "all_reduce: undefined type 14 or operation 0");
  EXPECT_EQ(refused(data_type::int8, static_cast<reduce_op>(9)),
            "all_reduce: undefined type 4 or operation 9");

  // The data is unchanged, and an unused factor is not validated.
  EXPECT_EQ(ranks.run([&](int r) {
    return all_reduce(ranks.world(r), data[r], data_type::uint32, {reduce_op::sum, 0.5});
  }),
            "");
  EXPECT_EQ(data[0], (std::vector<std::uint32_t>{4, 6}));
  EXPECT_EQ(data[1], data[0]);
}

TEST(AllReduceTypes, OverflowAndNanReachEveryRank) {
  job ranks(3, test::small_pieces());
  // 448 is e4m3's greatest number; 0xff is NaN.
  const std::vector<std::uint8_t> inputs[3] = {{0x7e, 0x38, 0xfe}, {0x7e, 0xff, 0xfe}, {0, 0, 0}};
  std::vector<std::uint8_t> data[3] = {inputs[0], inputs[1], inputs[2]};
  ASSERT_EQ(ranks.run([&](int r) {
    return all_reduce(ranks.world(r), data[r], data_type::float8_e4m3, reduce_op::average);
  }),
            "");
  // (56 + 56) / 0.375 = 299, which rounds to 288; an average of finite numbers is finite.
  for (const auto& got : data) EXPECT_EQ(got, (std::vector<std::uint8_t>{0x79, 0x7f, 0xf9}));
  for (int r = 0; r < 3; ++r) data[r] = inputs[r];
  ASSERT_EQ(ranks.run([&](int r) {
    return all_reduce(ranks.world(r), data[r], data_type::float8_e4m3, reduce_op::sum);
  }),
            "");
  for (const auto& got : data) EXPECT_EQ(got, (std::vector<std::uint8_t>{0x7f, 0x7f, 0x7f}));
  for (int r = 0; r < 3; ++r) data[r] = inputs[r];
  ASSERT_EQ(ranks.run([&](int r) {
    return all_reduce(ranks.world(r), data[r], data_type::float8_e4m3, premultiplied_sum(0.25));
  }),
            "");
  // 112 + 112 = 224
  for (const auto& got : data) EXPECT_EQ(got, (std::vector<std::uint8_t>{0x76, 0x7f, 0xf6}));
}

}  // namespace
}  // namespace tandem
