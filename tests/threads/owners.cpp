// Which thread or strand may call: several threads on one context, strands, and executors that are
// refused.
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <latch>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>

#include "conformance/pairs.hpp"
#include "support/fabric_maker.hpp"

namespace tandem::test {
namespace {

using namespace std::chrono_literals;

void expect_refused(const asio::any_io_executor& executor, const std::string& why) {
  try {
    local::make_pair(executor, executor);
    FAIL() << "it was accepted: " << why;
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input);
    EXPECT_NE(std::string(refused.what()).find(why), std::string::npos) << refused.what();
    EXPECT_NE(std::string(refused.what()).find("make_strand"), std::string::npos);
  }
}

TEST(owners, executors_that_cannot_work_are_refused) {
  asio::thread_pool pool(2);
  expect_refused(pool.get_executor(), "pool of 2 threads");
  expect_refused(asio::system_executor(), "system executor");
}

awaitable<void> echoes(channel& on, int count) {
  for (int i = 0; i < count; ++i) {
    std::uint64_t word = 0;
    const mutable_view into(&word, sizeof word);
    co_await on.recv(1, into);
    co_await on.send(2, into);
  }
}

awaitable<void> asks(channel& on, int count) {
  for (int i = 0; i < count; ++i) {
    std::uint64_t word = static_cast<std::uint64_t>(i);
    const mutable_view view(&word, sizeof word);
    co_await on.send(1, view);
    co_await on.recv(2, view);
    if (word != static_cast<std::uint64_t>(i)) throw std::runtime_error("another word came back");
  }
}

awaitable<void> exchange(channel& first, channel& second, int count) {
  std::vector<awaitable<void>> both;
  both.push_back(asks(first, count));
  both.push_back(echoes(second, count));
  co_await when_all(std::move(both));
}

awaitable<void> ping_pong(channel_pair pair, int count) {
  co_await exchange(*pair.first, *pair.second, count);
}

awaitable<void> local_ping_pong(int count) {
  channel_pair pair = co_await pair_over_local({});
  co_await ping_pong(std::move(pair), count);
}

TEST(owners, a_pool_of_one_thread_works) {
  asio::thread_pool pool(1);
  asio::co_spawn(pool, local_ping_pong(1000), asio::use_future).get();
}

awaitable<void> all_reduces(communicator& among, int count) {
  for (int i = 0; i < count; ++i) {
    std::vector<std::int64_t> data(i % 50 == 0 ? 40000 : 10, among.rank() + 1);
    const mutable_view view(data);
    co_await all_reduce(among, view, data_type::int64, reduce_op::sum);
    if (data != std::vector<std::int64_t>(data.size(), 3)) throw std::runtime_error("a wrong sum");
  }
}

awaitable<void> collectives_over(const fabric_kind& kind) {
  std::vector<std::unique_ptr<fabric>> fabrics = co_await kind.make(2, {});
  communicator first(*fabrics[0], {}), second(*fabrics[1], {});
  std::vector<awaitable<void>> both;
  both.push_back(all_reduces(first, 200));
  both.push_back(all_reduces(second, 200));
  co_await when_all(std::move(both));
  for (const auto& each : fabrics) each->close();
}

class in_strands : public testing::TestWithParam<fabric_kind> {};

/// Jobs in strands of their own, on threads that all run one context.
TEST_P(in_strands, of_a_context_with_four_threads) {
  asio::io_context context;
  std::vector<std::future<void>> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(
        asio::co_spawn(asio::make_strand(context), collectives_over(GetParam()), asio::use_future));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&context] { context.run(); });
  for (auto& each : jobs) EXPECT_NO_THROW(each.get());
  context.stop();
  for (std::thread& each : threads) each.join();
}

TEST_P(in_strands, of_a_pool_of_threads) {
  asio::thread_pool pool(4);
  std::vector<std::future<void>> jobs;
  for (int i = 0; i < 2; ++i) {
    jobs.push_back(
        asio::co_spawn(asio::make_strand(pool), collectives_over(GetParam()), asio::use_future));
  }
  for (auto& each : jobs) EXPECT_NO_THROW(each.get());
}

INSTANTIATE_TEST_SUITE_P(owners, in_strands, testing::ValuesIn(fabric_kinds()),
                         [](const auto& of) { return std::string(of.param.name); });

/// Two threads run one context without a strand: one of them, or a call, gets the error. Nothing
/// else may happen, but a race that neither of them has lost.
TEST(owners, two_threads_of_one_context_get_an_error) {
  int reported = 0;
  for (int round = 0; round < 20; ++round) {
    asio::io_context context;
    std::atomic<int> errors{0};
    const auto count = [&errors](std::exception_ptr failure) {
      try {
        if (failure) std::rethrow_exception(failure);
      } catch (const error& e) {
        if (e.code() == errc::wrong_thread) ++errors;
      } catch (...) {
      }
    };
    asio::co_spawn(context, local_ping_pong(20000), [&](std::exception_ptr failure) {
      count(failure);
      context.stop();
    });
    const auto run = [&] {
      try {
        context.run();
      } catch (...) {
        count(std::current_exception());
        context.stop();
      }
    };
    std::thread one(run), two(run);
    one.join();
    two.join();
    if (errors > 0) ++reported;
  }
  EXPECT_GT(reported, 0);
}

awaitable<void> waits(asio::any_io_executor on, std::chrono::milliseconds time) {
  asio::steady_timer timer(on, time);
  co_await timer.async_wait(asio::use_awaitable);
}

/// An operation that another thread starts while the loop runs elsewhere is refused, and the
/// channel goes on.
TEST(owners, a_call_of_another_thread_is_refused) {
  asio::io_context context;
  auto [first, second] = local::make_pair(context.get_executor(), context.get_executor());
  std::latch begun(1);
  std::promise<void> asked;
  auto may_end = asked.get_future();
  std::thread loop([&] {
    asio::co_spawn(
        context,
        [&]() -> awaitable<void> {
          co_await first->send(0, std::string_view("hello"));
          begun.count_down();
          while (may_end.wait_for(0s) != std::future_status::ready)
            co_await waits(context.get_executor(), 1ms);
          char text[5];
          co_await second->recv(0, mutable_view(text, sizeof text));
          EXPECT_EQ(std::string_view(text, 5), "hello");
        },
        asio::use_future);
    context.run_for(10s);
  });
  begun.wait();
  operation op;
  op.what = operation::kind::recv;
  op.complete = [](operation&) { FAIL(); };
  EXPECT_TRUE(second->start(op));
  EXPECT_EQ(op.result, errc::wrong_thread) << op.result.message();
  ASSERT_TRUE(op.failure);
  EXPECT_NE(std::string(op.failure->what()).find("boost::asio::post"), std::string::npos);
  asked.set_value();
  first->get_executor();
  asio::post(context, [&] { first->close(), second->close(); });
  loop.join();
}

TEST(owners, a_call_outside_of_the_strand_is_refused) {
  asio::io_context context;
  const auto strand = asio::make_strand(context);
  auto [first, second] = local::make_pair(strand, strand);
  asio::post(context, [&] {  // in the same thread, but not in the strand
    operation op;
    op.what = operation::kind::recv;
    EXPECT_TRUE(first->start(op));
    EXPECT_EQ(op.result, errc::wrong_thread) << op.result.message();
    EXPECT_NE(std::string(op.failure->what()).find("strand"), std::string::npos);
  });
  context.run_for(50ms);
  first->close();
}

/// One loop after the other, on threads of their own, and then on this one.
TEST(owners, a_loop_may_move_to_another_thread_after_the_first_has_ended) {
  asio::io_context context;
  auto [first, second] = local::make_pair(context.get_executor(), context.get_executor());
  const auto run = [&] {
    std::future<void> done =
        asio::co_spawn(context, exchange(*first, *second, 10), asio::use_future);
    while (done.wait_for(0s) != std::future_status::ready) context.run_one();
    EXPECT_NO_THROW(done.get());
  };
  std::thread(run).join();
  std::thread(run).join();
  run();
  first->close(), second->close();
}

TEST(owners, run_of_this_library_hands_the_loop_over) {
  asio::io_context context;
  auto [first, second] = local::make_pair(context.get_executor(), context.get_executor());
  const auto both = [&]() -> awaitable<void> {
    co_await exchange(*first, *second, 10);
    context.stop();
  };
  std::promise<void> first_ran, may_end;
  std::thread other([&] {
    asio::co_spawn(context, both(), asio::detached);
    tandem::run(context);
    first_ran.set_value();
    may_end.get_future().wait();  // alive, but no longer in the loop
  });
  first_ran.get_future().wait();
  context.restart();
  std::future<void> done = asio::co_spawn(context, both(), asio::use_future);
  tandem::run(context);
  EXPECT_NO_THROW(done.get());
  may_end.set_value();
  other.join();
  first->close(), second->close();
}

}  // namespace
}  // namespace tandem::test
