// Collectives whose type of elements follows from the views', and those that name another one.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <tandem/typed_collectives.hpp>

#include "job.hpp"

namespace own {

/// A program's type with the layout of bfloat16.
struct upper_half {
  std::uint16_t bits;
};
struct unknown {
  float value;
};
struct of_wrong_size {
  std::uint32_t bits;
};

}  // namespace own

template <>
struct tandem::element_type<own::upper_half> {
  static constexpr data_type value = data_type::bfloat16;
};
template <>
struct tandem::element_type<own::of_wrong_size> {
  static constexpr data_type value = data_type::bfloat16;
};

namespace tandem::test {
namespace {

static_assert(element_type<float>::value == data_type::float32);
static_assert(element_type<long>::value == data_type::int64);
static_assert(element_type<long long>::value == data_type::int64);
static_assert(element_type<unsigned char>::value == data_type::uint8);
static_assert(element_type<signed char>::value == data_type::int8);
static_assert(!element<char> && !element<bool> && !element<own::unknown>);
static_assert(element<own::upper_half> && !element<own::of_wrong_size>);
static_assert(element_range<std::vector<float>&> && element_range<const std::array<int, 3>&>);
static_assert(!element_range<std::vector<float>>);  // a temporary
static_assert(element_range<std::span<const double>> &&
              !writable_element_range<std::span<const double>>);

template <class T>
asio::awaitable<void> every_call(communicator& among) {
  const auto n = static_cast<std::size_t>(among.size());
  const T mine = static_cast<T>(among.rank() + 1);
  const T sum = static_cast<T>(n * (n + 1) / 2);
  std::vector<T> data(3 * n, mine);
  co_await all_reduce(among, data, reduce_op::sum);
  EXPECT_EQ(data, std::vector<T>(3 * n, sum));
  const std::vector<T> from(3 * n, mine);
  co_await all_reduce(among, from, data, reduce_op::maximum, algorithm::ring);
  EXPECT_EQ(data, std::vector<T>(3 * n, static_cast<T>(n)));
  co_await reduce(among, from, data, reduce_op::sum, 0);
  if (among.rank() == 0) {
    EXPECT_EQ(data, std::vector<T>(3 * n, sum));
  }
  std::array<T, 3> block{};
  co_await reduce_scatter(among, from, block, reduce_op::sum);
  EXPECT_EQ(block, (std::array<T, 3>{sum, sum, sum}));
}

TEST(TypedCollectives, FollowTheElements) {
  job ranks(3, small_pieces());
  EXPECT_EQ(ranks.run([&](int r) { return every_call<double>(ranks.world(r)); }), "");
  EXPECT_EQ(ranks.run([&](int r) { return every_call<float>(ranks.world(r)); }), "");
  EXPECT_EQ(ranks.run([&](int r) { return every_call<std::int8_t>(ranks.world(r)); }), "");
  EXPECT_EQ(ranks.run([&](int r) { return every_call<std::uint16_t>(ranks.world(r)); }), "");
  EXPECT_EQ(ranks.run([&](int r) { return every_call<long>(ranks.world(r)); }), "");
}

asio::awaitable<void> own_type(communicator& among) {
  std::vector<own::upper_half> data(5, own::upper_half{0x3f80});  // 1
  co_await all_reduce(among, std::span(data), reduce_op::sum);
  EXPECT_EQ(data[4].bits, 0x4000);  // 2
}

asio::awaitable<void> mean(communicator& among) {
  std::vector<double> data(4, among.rank() == 0 ? 1.0 : 5.0);
  co_await weighted_mean(among, data, among.rank() == 0 ? 3.0 : 1.0);
  EXPECT_EQ(data, std::vector<double>(4, 2.0));
}

TEST(TypedCollectives, OfTypesOfTheProgram) {
  job ranks(2, small_pieces());
  EXPECT_EQ(ranks.run([&](int r) { return own_type(ranks.world(r)); }), "");
  EXPECT_EQ(ranks.run([&](int r) { return mean(ranks.world(r)); }), "");
}

asio::awaitable<void> double_as_float(communicator& among) {
  std::vector<double> data(8, 1.0);
  try {
    co_await all_reduce(among, data, data_type::float32, reduce_op::sum);
    ADD_FAILURE() << "it was accepted";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input);
    EXPECT_NE(std::string(refused.what()).find("says float32, but the elements are float64"),
              std::string::npos)
        << refused.what();
  }
  EXPECT_EQ(data, std::vector<double>(8, 1.0));
  // Nothing has changed: the communicator goes on.
  co_await all_reduce(among, data, data_type::float64, reduce_op::sum);
  EXPECT_EQ(data, std::vector<double>(8, 2.0));
  std::vector<std::uint16_t> halves(8, 0x3c00);  // 1 as float16
  co_await all_reduce(among, halves, data_type::float16, reduce_op::sum);
  EXPECT_EQ(halves, std::vector<std::uint16_t>(8, 0x4000));
}

TEST(TypedCollectives, RefuseElementsOfAnotherTypeThanNamed) {
  job ranks(2, small_pieces());
  EXPECT_EQ(ranks.run([&](int r) { return double_as_float(ranks.world(r)); }), "");
}

}  // namespace
}  // namespace tandem::test
