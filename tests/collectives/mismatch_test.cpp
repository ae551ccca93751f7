// Ranks that make different calls: detected and reported on every rank with both calls, never a
// hang.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <tandem/collectives.hpp>

#include "collectives/job.hpp"
#include "communicator/call_log.hpp"
#include "communicator/call_record.hpp"

namespace tandem {
namespace {

using detail::call_log;
using detail::call_record;
using test::job;

/// What differs between the ranks' calls.
struct difference {
  const char* name;
  asio::awaitable<void> (*right)(communicator&, mutable_view);
  asio::awaitable<void> (*wrong)(communicator&, mutable_view);
  const char* expected_texts[2];
};

template <data_type type, reduce_op op, algorithm how, std::size_t bytes>
asio::awaitable<void> reducing(communicator& among, mutable_view data) {
  return all_reduce(among, data.part(0, bytes), type, op, how);
}

template <int root>
asio::awaitable<void> from(communicator& among, mutable_view data) {
  return broadcast(among, data.part(0, 64), root);
}

template <std::size_t bytes>
asio::awaitable<void> sized(communicator& among, mutable_view data) {
  return broadcast(among, data.part(0, bytes), 0);
}

template <int root>
asio::awaitable<void> to(communicator& among, mutable_view data) {
  return reduce(among, data, data, data_type::float32, reduce_op::sum, root);
}

asio::awaitable<void> hold(communicator& among, mutable_view) {
  return barrier(among);
}

asio::awaitable<void> swap(communicator& among, mutable_view data) {
  const std::size_t half = 1920;  // blocks for two to five ranks
  return all_to_all(among, data.part(0, half), data.part(half, half));
}

constexpr auto f32 = data_type::float32;
constexpr auto i32 = data_type::int32;
constexpr auto sum = reduce_op::sum;
constexpr auto ring = algorithm::ring;
constexpr auto doubling = algorithm::recursive_doubling;

const difference differences[] = {
    {"type",
     reducing<f32, sum, ring, 4096>,
     reducing<i32, sum, ring, 4096>,
     {"all_reduce of 4096 bytes (ring, float32, sum)",
      "all_reduce of 4096 bytes (ring, int32, sum)"}},
    {"reduction",
     reducing<f32, sum, doubling, 64>,
     reducing<f32, reduce_op::maximum, doubling, 64>,
     {"(recursive_doubling, float32, sum)", "float32, maximum)"}},
    {"length",
     reducing<f32, sum, ring, 4096>,
     reducing<f32, sum, ring, 2048>,
     {"of 4096 bytes", "of 2048 bytes"}},
    {"a_little_length",
     reducing<f32, sum, doubling, 64>,
     reducing<f32, sum, doubling, 60>,
     {"of 64 bytes", "of 60 bytes"}},
    {"algorithm",
     reducing<f32, sum, ring, 4096>,
     reducing<f32, sum, doubling, 4096>,
     {"(ring,", "(recursive_doubling,"}},
    {"operation",
     hold,
     reducing<f32, sum, doubling, 64>,
     {"barrier (direct)", "all_reduce of 64 bytes"}},
    {"operation_of_one_shape",
     swap,
     reducing<f32, sum, ring, 1920>,
     {"all_to_all of 1920 bytes", "all_reduce of 1920 bytes"}},
    {"root_of_reduce", to<0>, to<2>, {"with root 0", "with root 2"}},
    {"length_of_broadcast",
     sized<64>,
     sized<32>,
     {"broadcast of 64 bytes", "broadcast of 32 bytes"}},
    {"root_of_broadcast", from<0>, from<2>, {"with root 0", "with root 2"}},
};

/// A broadcast from two roots completes on both; it is detected only by the next call.
asio::awaitable<void> twice(communicator& among, mutable_view data, const difference& of,
                            bool is_wrong) {
  co_await (is_wrong ? of.wrong : of.right)(among, data);
  co_await barrier(among);
}

TEST(CallMismatch, IsReportedOnEveryRankWithBothCalls) {
  for (const difference& of : differences) {
    for (int n = 2; n <= 5; ++n) {
      for (int wrong = 0; wrong < n; ++wrong) {
        SCOPED_TRACE(testing::Message() << of.name << ", " << n << " ranks, rank " << wrong);
        if (n == 2 && std::string(of.name).starts_with("root")) continue;  // there is no root 2
        job ranks(n, test::small_pieces());
        std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(n));
        for (auto& one : data) one.resize(4096);
        ASSERT_NE(ranks.run([&](int r) {
          return twice(ranks.world(r), data[static_cast<std::size_t>(r)], of, r == wrong);
        }),
                  "hangs");
        for (int r = 0; r < n; ++r) {
          EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
          EXPECT_NE(ranks.text(r).find("same calls in the same order"), std::string::npos)
              << ranks.text(r);
        }
        const std::string message = ranks.text(0);
        if (message.find("made other calls") != std::string::npos) continue;
        EXPECT_NE(message.find(of.expected_texts[0]), std::string::npos) << message;
        EXPECT_NE(message.find(of.expected_texts[1]), std::string::npos) << message;
        if (HasFailure()) return;
      }
    }
  }
}

asio::awaitable<void> of_other_groups(job& ranks, int r) {
  // Both use group id 5 for different ranks.
  const std::vector<int> members = r == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
  communicator part(*ranks.fabrics[static_cast<std::size_t>(r)], settings(), members, 5);
  co_await barrier(part);
}

TEST(CallMismatch, OfGroupsIsDetected) {
  job ranks(2);
  ASSERT_NE(ranks.run([&](int r) { return of_other_groups(ranks, r); }), "hangs");
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("their groups differ"), std::string::npos) << ranks.text(r);
  }
}

asio::awaitable<void> two_at_once(communicator& among, std::int32_t* numbers, bool other_order) {
  const mutable_view first(numbers + (other_order ? 1 : 0), 4);
  const mutable_view second(numbers + (other_order ? 0 : 1), 4);
  const reduce_op one = other_order ? reduce_op::maximum : reduce_op::sum;
  const reduce_op two = other_order ? reduce_op::sum : reduce_op::maximum;
  co_await all_reduce(among, first, i32, one);
  co_await all_reduce(among, second, i32, two);
}

TEST(CallMismatch, OfOrderIsDetected) {
  job ranks(2);
  std::int32_t numbers[2][2] = {};
  ASSERT_NE(ranks.run([&](int r) { return two_at_once(ranks.world(r), numbers[r], r == 1); }),
            "hangs");
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
}

TEST(CallRecord, DescribesTheCall) {
  EXPECT_EQ(call_record(collective::barrier, algorithm::direct, 0).text(), "barrier (direct)");
  EXPECT_EQ(call_record(collective::broadcast, algorithm::tree, 8, 0).text(),
            "broadcast of 8 bytes with root 0 (tree)");
  EXPECT_EQ(call_record(collective::reduce, algorithm::chain, std::size_t{1} << 35,
                        data_type::float8_e5m2, reduce_op::premultiplied_sum, 4000)
                .text(),
            "reduce of 34359738368 bytes with root 4000 (chain, float8_e5m2, premultiplied_sum)");
  EXPECT_EQ(call_record(0).text(), "no collective");
}

TEST(CallRecord, DescribesArbitraryBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) EXPECT_FALSE(call_record(random()).text().empty());
  EXPECT_FALSE(call_record(~std::uint64_t{0}).text().empty());
}

TEST(CallLog, FindsTheFirstDifference) {
  call_log a(1), b(1);
  EXPECT_FALSE(a.first_difference(b));
  for (std::uint64_t i = 0; i < 100; ++i) {
    a.add(i);
    EXPECT_FALSE(a.first_difference(b)) << "the other is only late";
    b.add(i);
    EXPECT_FALSE(a.first_difference(b));
  }
  a.add(7);
  b.add(8);
  a.add(9);
  b.add(9);
  EXPECT_EQ(a.first_difference(b), 100u);
  EXPECT_TRUE(a.at(101) != b.at(101)) << "later calls differ by their history";
  EXPECT_EQ(call_log(1).first_difference(call_log(2)), std::nullopt);
}

TEST(CallLog, StaysDifferentAfterFirstDifference) {
  call_log a(1), b(1);
  a.add(7);
  b.add(8);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    a.add(i);
    b.add(i);
  }
  EXPECT_EQ(a.first_difference(b), 1001 - call_log::capacity);
}

TEST(CallLog, SurvivesTransmission) {
  call_log a(5);
  for (std::uint64_t i = 0; i < 70; ++i) a.add(i * 0x0102030405060708);
  call_log back;
  std::memcpy(static_cast<void*>(&back), &a, sizeof a);
  EXPECT_EQ(back.count(), 70u);
  for (std::uint64_t index = 6; index < 70; ++index) EXPECT_TRUE(back.at(index) == a.at(index));
  EXPECT_FALSE(a.first_difference(back));
}

TEST(CallLog, IsSafeToCompareWithAnything) {
  std::mt19937_64 random(2);
  call_log a(5);
  for (std::uint64_t i = 0; i < 70; ++i) a.add(i);
  std::array<std::uint64_t, sizeof(call_log) / 8> bits{};
  int found = 0;
  for (int i = 0; i < 10'000; ++i) {
    for (std::uint64_t& one : bits) one = random();
    // The count precedes the calls: nearby and distant values.
    if (i % 2 == 0) bits[0] = static_cast<std::uint64_t>(i % 200);
    call_log hostile;
    std::memcpy(static_cast<void*>(&hostile), bits.data(), sizeof hostile);
    const auto index = a.first_difference(hostile);
    if (!index) continue;
    ++found;
    EXPECT_LT(*index, 70u);
  }
  EXPECT_GT(found, 1000);
}

/// A rank that never calls, and one that has called before and not again.
TEST(MissingCall, NamesTheRankThatHasNotCalled) {
  settings options = test::small_pieces();
  options.operation_timeout = std::chrono::seconds(4);
  job ranks(4, options);
  std::vector<std::vector<float>> data(4, std::vector<float>(1000));
  const auto calls = [&](int r) -> asio::awaitable<void> {
    auto& mine = data[static_cast<std::size_t>(r)];
    co_await barrier(ranks.world(r));
    if (r < 2) co_await all_reduce(ranks.world(r), mine, f32, sum, doubling);
  };
  ASSERT_NE(ranks.run(calls), "hangs");
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.code(r), errc::timed_out) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("ranks 2, 3 have not called all_reduce"), std::string::npos)
        << ranks.text(r);
  }
}

/// The other ranks of a broadcast may have ended: nobody is accused.
TEST(MissingCall, IsNotKnownOfACallWithARoot) {
  settings options = test::small_pieces();
  options.operation_timeout = std::chrono::seconds(3);
  job ranks(2, options);
  std::vector<char> data(10000);
  const auto calls = [&](int r) {
    return r == 0 ? broadcast(ranks.world(0), mutable_view(data), 0) : test::nothing();
  };
  ASSERT_NE(ranks.run(calls), "hangs");
  EXPECT_EQ(ranks.code(0), errc::timed_out) << ranks.text(0);
  EXPECT_EQ(ranks.text(0).find("not called"), std::string::npos) << ranks.text(0);
}

}  // namespace
}  // namespace tandem
