// Collectives of kernels, on simulated devices. What they queue: kernel_steps_test.cpp; through the
// C interface: tests/c/kernel_collectives_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/kernel_collectives.hpp>

#include "collectives/device_job.hpp"
#include "collectives/slow.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

using numbers = std::vector<std::int32_t>;

/// Ranks on two devices, which reach each other's memory or are relayed over a fabric.
class KernelCollectives : public testing::TestWithParam<std::string> {
 protected:
  static bool are_direct() { return GetParam() == "direct"; }
  static std::unique_ptr<device_job> make_job(int ranks) {
    const std::string fabric = are_direct() ? "shm" : GetParam();
    const fabric_kind& over = *std::ranges::find(fabric_kinds(), fabric, &fabric_kind::name);
    return std::make_unique<device_job>(over, ranks, small_pieces(), every_other_device);
  }
  static accelerator& device_of(int rank) {
    return accelerator_at(memory_kind::cuda, every_other_device(rank));
  }
  static asio::awaitable<kernel_collectives::made> make(device_job& ranks, int rank) {
    const kernel_path how = are_direct() ? kernel_path::direct : kernel_path::relayed;
    return kernel_collectives::make(ranks.world(rank), device_of(rank), 64 * 1024, {}, how);
  }
  static asio::awaitable<void> reach(int rank, accelerator::stream on) {
    device_watch watch(co_await asio::this_coro::executor, device_of(rank));
    co_await watch.reached(on);
  }
  static numbers of_rank(int rank, std::size_t count) {
    numbers made(count);
    std::iota(made.begin(), made.end(), 1000 * rank);
    return made;
  }
  static std::vector<reduction> operations_of(data_type type) {
    std::vector<reduction> all;
    for (const reduce_op op :
         {reduce_op::sum, reduce_op::product, reduce_op::minimum, reduce_op::maximum,
          reduce_op::average, reduce_op::band, reduce_op::bor, reduce_op::bxor}) {
      if (is_defined(type, op)) all.emplace_back(op);
    }
    if (!is_defined(type, reduce_op::band)) all.push_back(premultiplied_sum(0.7));
    return all;
  }
  /// What one rank's call leaves there.
  using expect_function = std::function<void(int rank, const numbers& into)>;
  void run_call(int ranks, std::size_t from_count, std::size_t into_count,
                kernel_collectives::call what, const expect_function& expect) {
    const auto job = make_job(ranks);
    std::vector<numbers> from, into(static_cast<std::size_t>(ranks), numbers(into_count));
    for (int r = 0; r < ranks; ++r) from.push_back(of_rank(r, from_count));
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const auto at = static_cast<std::size_t>(r);
      kernel_collectives::call call = what;
      call.from = job->there(r, const_view(from[at]));
      call.into = job->there(r, mutable_view(into[at]));
      const kernel_collectives::made made = co_await make(*job, r);
      EXPECT_EQ(made.why_not, "");
      const device_stream on(device_of(r));
      EXPECT_TRUE(made.collectives->takes(call));
      const auto launched = made.collectives->launch(call, on.get());
      co_await reach(r, on.get());
      for (const auto& each : launched.ends) co_await passes(each, are_direct());
      for (const auto& each : made.collectives->messages()) EXPECT_FALSE(each->find_mismatch());
    };
    ASSERT_EQ(job->run(body), "");
    job->copy_back();
    for (int r = 0; r < ranks; ++r) expect(r, into[static_cast<std::size_t>(r)]);
  }

  devices_with_kernels devices;
};

INSTANTIATE_TEST_SUITE_P(Paths, KernelCollectives, testing::Values("direct", "shm", "tcp"),
                         [](const auto& of) { return of.param; });

/// Also longer than the scratch memory.
TEST_P(KernelCollectives, GiveTheSum) {
  for (const int ranks : {2, 3, 5}) {
    for (const std::size_t count : {1UL, 5000UL, 100'000UL}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count));
      const auto sum_at = [ranks](std::size_t i) {
        return ranks * static_cast<std::int32_t>(i) + 1000 * ranks * (ranks - 1) / 2;
      };
      run_call(ranks, count, count, {.what = collective::all_reduce, .type = data_type::int32},
               [&](int, const numbers& into) {
                 for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(into[i], sum_at(i));
               });
      run_call(ranks, count, count,
               {.what = collective::reduce, .type = data_type::int32, .root = ranks - 1},
               [&](int rank, const numbers& into) {
                 if (rank == ranks - 1) {
                   EXPECT_EQ(into.back(), sum_at(count - 1));
                 }
               });
      run_call(ranks, count * static_cast<std::size_t>(ranks), count,
               {.what = collective::reduce_scatter, .type = data_type::int32},
               [&](int rank, const numbers& into) {
                 const std::size_t first = static_cast<std::size_t>(rank) * count;
                 for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(into[i], sum_at(first + i));
               });
    }
  }
}

TEST_P(KernelCollectives, GiveWhatOthersHave) {
  for (const std::size_t count : {1UL, 5000UL, 100'000UL}) {
    SCOPED_TRACE(count);
    run_call(3, count, 3 * count, {.what = collective::all_gather}, [&](int, const numbers& into) {
      for (int r = 0; r < 3; ++r) {
        const auto first = into.begin() + static_cast<long>(r * static_cast<long>(count));
        EXPECT_TRUE(std::equal(first, first + static_cast<long>(count), of_rank(r, count).begin()));
      }
    });
    run_call(3, count, count, {.what = collective::broadcast, .root = 1},
             [&](int rank, const numbers& into) {
               if (rank != 1) {
                 EXPECT_EQ(into, of_rank(1, count));
               }
             });
  }
}

/// All types and operations, of two ranks, whose kernels combine what they exchange.
TEST_P(KernelCollectives, GiveTheBitsOfChannels) {
  constexpr std::size_t count = 3001;
  for (const data_type type : all_types) {
    for (const reduction& how : operations_of(type)) {
      SCOPED_TRACE(std::string(name(type)) + ' ' + std::string(name(how.op)));
      const auto job = make_job(2);
      const std::size_t bytes = count * bytes_of(type);
      std::vector<std::vector<std::byte>> from, by_channels, by_kernels;
      for (std::uint64_t r = 0; r < 2; ++r) {
        from.push_back(pattern(bytes, r));
        by_channels.emplace_back(bytes);
        by_kernels.emplace_back(bytes);
      }
      const job::rank_body body = [&](int r) -> asio::awaitable<void> {
        const auto at = static_cast<std::size_t>(r);
        const const_view data = job->there(r, const_view(from[at]));
        const mutable_view one = job->there(r, mutable_view(by_channels[at]));
        const mutable_view other = job->there(r, mutable_view(by_kernels[at]));
        co_await all_reduce(job->world(r), data, one, type, how);
        const kernel_collectives::made made = co_await make(*job, r);
        const device_stream on(device_of(r));
        made.collectives->launch({collective::all_reduce, data, other, type, how}, on.get());
        // In place, and behind it.
        made.collectives->launch({collective::all_reduce, other, other, type, how}, on.get());
        co_await all_reduce(job->world(r), one, one, type, how);
        co_await reach(r, on.get());
      };
      const int before = devices.kernels_that_wait.exchanges();
      ASSERT_EQ(job->run(body), "");
      EXPECT_EQ(devices.kernels_that_wait.exchanges() - before, 2 * 2);
      job->copy_back();
      for (const std::size_t r : {0UL, 1UL}) EXPECT_EQ(by_kernels[r], by_channels[r]);
    }
  }
}

/// A slot's pieces, and longer than one kernel combines.
TEST_P(KernelCollectives, OfTwoRanksAtAnyLength) {
  for (const std::size_t count : {2'048UL, 131'073UL, 262'144UL, 262'145UL}) {
    SCOPED_TRACE(count);
    const auto expect = [&](std::size_t first, const numbers& into) {
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(into[i], 2 * static_cast<std::int32_t>(first + i) + 1000);
      }
    };
    run_call(2, count, count, {.what = collective::all_reduce, .type = data_type::int32},
             [&](int, const numbers& into) { expect(0, into); });
    run_call(2, 2 * count, count, {.what = collective::reduce_scatter, .type = data_type::int32},
             [&](int rank, const numbers& into) {
               expect(static_cast<std::size_t>(rank) * count, into);
             });
  }
}

/// They share scratch memory.
TEST_P(KernelCollectives, OnStreamsThatKnowNothingOfEachOther) {
  constexpr std::size_t count = 3000, calls = 12;
  const auto job = make_job(2);
  std::vector<std::vector<numbers>> from(2), into(2);
  for (const std::size_t r : {0UL, 1UL}) {
    for (std::size_t i = 0; i < calls; ++i) {
      from[r].emplace_back(count, static_cast<int>(10 * i + r));
      into[r].emplace_back(count);
    }
  }
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const auto at = static_cast<std::size_t>(r);
    std::vector<kernel_collectives::call> all;
    for (std::size_t i = 0; i < calls; ++i) {
      all.push_back({collective::all_reduce, job->there(r, const_view(from[at][i])),
                     job->there(r, mutable_view(into[at][i])), data_type::int32});
    }
    const kernel_collectives::made made = co_await make(*job, r);
    std::vector<device_stream> streams;
    for (int i = 0; i < 3; ++i) streams.emplace_back(device_of(r));
    for (std::size_t i = 0; i < calls; ++i) {
      made.collectives->launch(all[i], streams[i % streams.size()].get());
    }
    for (const device_stream& each : streams) co_await reach(r, each.get());
  };
  ASSERT_EQ(job->run(body), "");
  job->copy_back();
  for (std::size_t i = 0; i < calls; ++i) {
    EXPECT_EQ(into[0][i], numbers(count, static_cast<int>(20 * i + 1)));
    EXPECT_EQ(into[1][i], into[0][i]);
  }
}

TEST_P(KernelCollectives, CallsThatDifferAreNoticed) {
  const auto job = make_job(2);
  numbers data(100);
  int noticed = 0;
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view view = job->there(r, mutable_view(data));
    const kernel_collectives::made made = co_await make(*job, r);
    const device_stream on(device_of(r));
    const reduction how = r == 0 ? reduce_op::sum : reduce_op::maximum;
    made.collectives->launch({collective::all_reduce, view, view, data_type::int32, how}, on.get());
    co_await reach(r, on.get());
    const auto found = made.collectives->messages().front()->find_mismatch();
    if (found) {
      ++noticed;
      const std::string sum = "all_reduce of int32, sum", maximum = "all_reduce of int32, maximum";
      EXPECT_EQ(kernel_collectives::describe(found->call_expected), r == 0 ? sum : maximum);
      EXPECT_EQ(kernel_collectives::describe(found->call_sent), r == 0 ? maximum : sum);
      EXPECT_EQ(found->bytes_sent, found->bytes_expected);
    }
    made.collectives->messages().front()->abort();
  };
  ASSERT_EQ(job->run(body), "");
  EXPECT_GE(noticed, 1);
}

/// Their kernels wait for the other rank then, and end before what they are of is unloaded.
TEST_P(KernelCollectives, MayEndBeforeTheOtherRankCalls) {
  const auto job = make_job(2);
  numbers data(100);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view view = job->there(r, mutable_view(data));
    kernel_collectives::made made = co_await make(*job, r);
    if (r != 0) co_return;
    const device_stream on(device_of(r));
    made.collectives->launch({collective::all_reduce, view, view, data_type::int32}, on.get());
    made = {};
    co_await reach(r, on.get());
  };
  ASSERT_EQ(job->run(body), "");
}

TEST_P(KernelCollectives, WhatTheyDoNotTake) {
  const auto job = make_job(2);
  numbers data(101);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view all = job->there(r, mutable_view(data));
    const mutable_view ten = all.part(0, 40), other = all.part(40, 40);
    const kernel_collectives::made made = co_await make(*job, r);
    const auto takes = [&](const kernel_collectives::call& what) {
      return made.collectives->takes(what);
    };
    const data_type type = data_type::int32;
    EXPECT_TRUE(takes({collective::all_reduce, ten, other, type}));
    EXPECT_TRUE(takes({collective::all_reduce, ten, ten, type}));
    EXPECT_FALSE(takes({collective::all_reduce, ten, all.part(4, 40), type}));
    EXPECT_FALSE(takes({collective::all_reduce, ten, other.part(0, 36), type}));
    EXPECT_FALSE(takes({collective::all_reduce, all.part(1, 40), other, type}));
    EXPECT_FALSE(takes({collective::all_reduce, ten.part(0, 39), other.part(0, 39), type}));
    EXPECT_FALSE(takes({collective::all_reduce, ten, other, data_type::float32, reduce_op::band}));
    EXPECT_FALSE(takes({collective::all_reduce, ten, other, type, premultiplied_sum(0.5)}));
    EXPECT_FALSE(takes({collective::all_reduce, ten, other, static_cast<data_type>(99)}));
    EXPECT_FALSE(takes({collective::all_gather, ten, other}));
    EXPECT_TRUE(takes({collective::all_gather, ten, all.part(40, 80)}));
    EXPECT_FALSE(takes({collective::reduce_scatter, ten, other, type}));
    EXPECT_FALSE(takes({.what = collective::broadcast, .from = ten, .root = 2}));
    EXPECT_FALSE(takes({.what = collective::broadcast, .from = ten, .root = -1}));
    EXPECT_FALSE(takes({collective::all_to_all, ten, other}));
    EXPECT_FALSE(takes({}));
  };
  ASSERT_EQ(job->run(body), "");
}

TEST_P(KernelCollectives, WhatIsNotPossibleIsSaidOnAll) {
  devices.compiler.fail("no such type");
  const auto job = make_job(3);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const kernel_collectives::made made = co_await make(*job, r);
    EXPECT_EQ(made.collectives, nullptr);
    EXPECT_NE(made.why_not.find("no such type"), std::string::npos) << made.why_not;
  };
  ASSERT_EQ(job->run(body), "");
}

/// Stopping the program in any step must not leak or access memory late.
TEST_P(KernelCollectives, StoppingAfterAnyStepIsSafe) {
  bool ended = false;
  for (int steps = 0; !ended; steps += 1 + steps / 50) {
    ASSERT_LT(steps, 100'000);
    SCOPED_TRACE(steps);
    std::vector<numbers> data(2, numbers(500));
    auto job = make_job(2);
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const mutable_view view = job->there(r, mutable_view(data[static_cast<std::size_t>(r)]));
      const kernel_collectives::made made = co_await make(*job, r);
      const device_stream on(device_of(r));
      made.collectives->launch({collective::all_reduce, view, view, data_type::int32}, on.get());
      co_await reach(r, on.get());
    };
    job->start(body);
    ended = job->step(steps);
    job.reset();
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace tandem::test
