// Messages that kernels carry out, on simulated devices. Through the C interface:
// tests/c/kernel_calls_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/kernel_messages.hpp>

#include "collectives/device_job.hpp"
#include "communicator/messages.hpp"
#include "streams/kernel_beginning.hpp"
#include "streams/slot_words.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

/// Two ranks, each on a device of its own, which reach each other's memory or are relayed over a
/// fabric.
class KernelMessages : public testing::TestWithParam<std::string> {
 protected:
  static bool are_direct() { return GetParam() == "direct"; }
  static std::unique_ptr<device_job> make_job(device_of_rank where = every_other_device) {
    const std::string fabric = are_direct() ? "shm" : GetParam();
    const fabric_kind& over = *std::ranges::find(fabric_kinds(), fabric, &fabric_kind::name);
    return std::make_unique<device_job>(over, 2, small_pieces(), where);
  }
  static accelerator& device_of(int rank) {
    return accelerator_at(memory_kind::cuda, every_other_device(rank));
  }
  asio::awaitable<kernel_messages::made> make(device_job& ranks, int rank) {
    if (are_direct()) return kernel_messages::make(ranks.world(rank), 1 - rank, device_of(rank));
    const auto at = static_cast<std::size_t>(rank);
    kernel_messages::relay_handlers what;
    what.lost = [this, at](const error& why) { failures[at].push_back(why.what()); };
    what.changed = [this, at](bool do_wait) { waiting[at] += do_wait ? 1 : -1; };
    return kernel_messages::make_relayed(ranks.world(rank), 1 - rank, device_of(rank),
                                         std::move(what));
  }
  static asio::awaitable<void> reach(int rank, accelerator::stream on) {
    device_watch watch(co_await asio::this_coro::executor, device_of(rank));
    co_await watch.reached(on);
  }
  /// Both ways, `times` times, with one kernel each time.
  static asio::awaitable<void> exchange(int rank, kernel_messages& by, mutable_view sent,
                                        mutable_view received, int times) {
    const device_stream on(device_of(rank));
    std::vector<kernel_messages::end> ends;
    const kernel_messages::message both[] = {{&by, false, received}, {&by, true, sent}};
    for (int i = 0; i < times; ++i) ends = kernel_messages::launch(both, on.get());
    co_await reach(rank, on.get());
    for (const kernel_messages::end& each : ends) co_await passes(each, are_direct());
    EXPECT_FALSE(by.find_mismatch());
  }

  devices_with_kernels devices;
  // By rank, as the relays report it.
  std::array<std::vector<std::string>, 2> failures;
  std::array<int, 2> waiting{};
};
INSTANTIATE_TEST_SUITE_P(Paths, KernelMessages, testing::Values("direct", "shm", "tcp", "rails"),
                         [](const auto& of) { return of.param; });

TEST(KernelBeginning, ProcessesTakeTurnsOnADeviceWithoutMps) {
  const detail::kernel_beginning one{.device = 7, .process = 100, .can = 1};
  detail::kernel_beginning other = one;
  EXPECT_FALSE(one.takes_turns_with(other));
  other.process = 101;
  EXPECT_TRUE(one.takes_turns_with(other));
  other.runs_processes_at_once = 1;
  EXPECT_TRUE(other.takes_turns_with(one));
  detail::kernel_beginning at_once = one;
  at_once.runs_processes_at_once = 1;
  EXPECT_FALSE(other.takes_turns_with(at_once));
  other = one;
  other.process = 101;
  other.device = 8;
  EXPECT_FALSE(one.takes_turns_with(other));
}

TEST_P(KernelMessages, OfAnyLength) {
  // The last are longer than all slots.
  for (const std::size_t bytes : {1UL, 16UL, 8193UL, 300'001UL, 5UL << 20}) {
    SCOPED_TRACE(bytes);
    const auto ranks = make_job();
    std::vector<std::vector<std::byte>> sent, got(2, std::vector<std::byte>(bytes));
    for (std::uint64_t r = 0; r < 2; ++r) sent.push_back(pattern(bytes, r));
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const auto at = static_cast<std::size_t>(r);
      const mutable_view message = ranks->there(r, mutable_view(sent[at]));
      const mutable_view into = ranks->there(r, mutable_view(got[at]));
      const kernel_messages::made made = co_await make(*ranks, r);
      EXPECT_EQ(made.why_not, "");
      EXPECT_EQ(made.messages->peer(), 1 - r);
      co_await exchange(r, *made.messages, message, into, bytes < 10'000 ? 20 : 2);
    };
    ASSERT_EQ(ranks->run(body), "");
    ranks->copy_back();
    EXPECT_EQ(got[0], sent[1]);
    EXPECT_EQ(got[1], sent[0]);
    EXPECT_EQ(waiting, (std::array<int, 2>{}));
  }
  EXPECT_EQ(devices.gpus.seen().launches, 2 * (20 + 20 + 20 + 2 + 2));
}

/// More on their way than there are slots, and by streams that know nothing of one another.
TEST_P(KernelMessages, InTheOrderOfTheirLaunches) {
  constexpr std::size_t bytes = 20'000, count = 40;
  const auto ranks = make_job();
  std::vector<std::byte> sent, got(bytes * count);
  for (std::size_t i = 0; i < count; ++i) {
    sent.insert(sent.end(), bytes, static_cast<std::byte>(i + 1));
  }
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view all = ranks->there(r, mutable_view(r == 0 ? sent : got));
    const kernel_messages::made made = co_await make(*ranks, r);
    const std::array<device_stream, 2> streams{device_stream(device_of(r)),
                                               device_stream(device_of(r))};
    for (std::size_t i = 0; i < count; ++i) {
      const kernel_messages::message one{made.messages.get(), r == 0, all.part(i * bytes, bytes)};
      kernel_messages::launch({&one, 1}, streams[i % 2].get());
    }
    for (const device_stream& each : streams) co_await reach(r, each.get());
  };
  ASSERT_EQ(ranks->run(body), "");
  ranks->copy_back();
  EXPECT_EQ(got, sent);
}

TEST_P(KernelMessages, DifferentLengthsAreNoticed) {
  const auto ranks = make_job();
  std::vector<std::byte> memory(1000);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view view = ranks->there(r, mutable_view(memory));
    const kernel_messages::made made = co_await make(*ranks, r);
    const device_stream on(device_of(r));
    const kernel_messages::message one{made.messages.get(), r == 0,
                                       r == 0 ? view : view.part(0, 900)};
    const auto ends = kernel_messages::launch({&one, 1}, on.get());
    co_await reach(r, on.get());
    if (r == 0) {
      co_await passes(ends.front(), are_direct());
    } else {
      EXPECT_FALSE(ends.front().has_passed());
    }
    const auto found = made.messages->find_mismatch();
    EXPECT_EQ(found.has_value(), r == 1);
    if (!found) co_return;
    EXPECT_EQ(found->bytes_sent, 1000U);
    EXPECT_EQ(found->bytes_expected, 900U);
    made.messages->abort();
    EXPECT_TRUE(ends.front().has_passed());
  };
  ASSERT_EQ(ranks->run(body), "");
}

TEST_P(KernelMessages, AnAbortEndsKernels) {
  const auto ranks = make_job();
  std::vector<std::byte> memory(100'000);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view view = ranks->there(r, mutable_view(memory));
    const kernel_messages::made made = co_await make(*ranks, r);
    if (r == 1) co_return;  // never sends
    const device_stream on(device_of(r));
    const kernel_messages::message one{made.messages.get(), false, view};
    const auto ends = kernel_messages::launch({&one, 1}, on.get());
    asio::steady_timer later(co_await asio::this_coro::executor, std::chrono::milliseconds(5));
    co_await later.async_wait(asio::use_awaitable);
    EXPECT_FALSE(ends.front().has_passed());
    made.messages->abort();
    co_await reach(r, on.get());
    EXPECT_TRUE(ends.front().has_passed());
    const auto late = kernel_messages::launch({&one, 1}, on.get());
    co_await reach(r, on.get());
    EXPECT_TRUE(late.front().has_passed());
  };
  ASSERT_EQ(ranks->run(body), "");
}

TEST_P(KernelMessages, EndWithTheirOwner) {
  const auto ranks = make_job();
  std::vector<std::byte> memory(100);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view view = ranks->there(r, mutable_view(memory));
    kernel_messages::made made = co_await make(*ranks, r);
    const device_stream on(device_of(r));
    const kernel_messages::message one{made.messages.get(), false, view};
    const auto ends = kernel_messages::launch({&one, 1}, on.get());  // nobody sends
    made.messages.reset();
    EXPECT_TRUE(ends.front().has_passed());
  };
  ASSERT_EQ(ranks->run(body), "");
}

TEST_P(KernelMessages, WhatIsNotPossibleIsSaidOnBoth) {
  devices.compiler.fail("no such type");
  const auto ranks = make_job();
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const kernel_messages::made made = co_await make(*ranks, r);
    EXPECT_EQ(made.messages, nullptr);
    EXPECT_NE(made.why_not.find("no such type"), std::string::npos) << made.why_not;
  };
  ASSERT_EQ(ranks->run(body), "");
}

/// Relayed messages notice it themselves.
TEST_P(KernelMessages, ALostPeerIsReported) {
  if (are_direct()) return;
  const auto ranks = make_job();
  std::vector<std::byte> memory(100'000);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view view = ranks->there(r, mutable_view(memory));
    const kernel_messages::made made = co_await make(*ranks, r);
    if (r == 1) {
      ranks->fabrics[1]->close();
      co_return;
    }
    const device_stream on(device_of(r));
    const kernel_messages::message one{made.messages.get(), false, view};
    kernel_messages::launch({&one, 1}, on.get());
    EXPECT_EQ(waiting[0], 1);
    asio::steady_timer later(co_await asio::this_coro::executor);
    for (int i = 0; i < 10'000 && failures[0].empty(); ++i) {
      later.expires_after(std::chrono::milliseconds(1));
      co_await later.async_wait(asio::use_awaitable);
    }
    EXPECT_EQ(waiting[0], 0);
    made.messages->abort();
    co_await reach(r, on.get());
  };
  ranks->run(body);
  EXPECT_EQ(failures[0].size(), 1U);
  EXPECT_EQ(failures[1].size(), 0U);
}

/// Parts of any length, with any head.
TEST_P(KernelMessages, OtherBytesAreReported) {
  if (are_direct()) return;
  constexpr std::uint16_t tag_of_first_block = 24;
  for (const std::size_t bytes : {0UL, 3UL, 8UL, 60UL, 109UL}) {
    SCOPED_TRACE(bytes);
    failures[0].clear();
    const auto ranks = make_job();
    std::vector<std::byte> memory(100);
    const std::vector<std::byte> other = pattern(bytes, 1);
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const mutable_view view = ranks->there(r, mutable_view(memory));
      const kernel_messages::made made = co_await make(*ranks, r);
      if (r == 1) {
        co_await detail::send_message(ranks->world(r).internals(), 0, const_view(other),
                                      tag_of_first_block, detail::group::flow_class::stream);
        co_return;
      }
      const device_stream on(device_of(r));
      const kernel_messages::message one{made.messages.get(), false, view};
      const auto ends = kernel_messages::launch({&one, 1}, on.get());
      asio::steady_timer later(co_await asio::this_coro::executor);
      for (int i = 0; i < 10'000 && failures[0].empty(); ++i) {
        later.expires_after(std::chrono::milliseconds(1));
        co_await later.async_wait(asio::use_awaitable);
      }
      EXPECT_FALSE(ends.front().has_passed());
      made.messages->abort();
      co_await reach(r, on.get());
    };
    ASSERT_EQ(ranks->run(body), "");
    ASSERT_EQ(failures[0].size(), 1U);
    EXPECT_NE(failures[0][0].find(std::to_string(bytes) + " bytes"), std::string::npos)
        << failures[0][0];
  }
}

/// Stopping the program in any step must not leak or access memory late.
TEST_P(KernelMessages, StoppingAfterAnyStepIsSafe) {
  bool ended = false;
  for (int steps = 0; !ended; steps += 1 + steps / 100) {
    ASSERT_LT(steps, 100'000);
    SCOPED_TRACE(steps);
    std::vector<std::byte> sent = pattern(500, 1);
    std::vector<std::vector<std::byte>> got(2, std::vector<std::byte>(500));
    auto ranks = make_job();
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const mutable_view message = ranks->there(r, mutable_view(sent));
      const mutable_view into = ranks->there(r, mutable_view(got[static_cast<std::size_t>(r)]));
      const kernel_messages::made made = co_await make(*ranks, r);
      co_await exchange(r, *made.messages, message, into, 1);
    };
    ranks->start(body);
    ended = ranks->step(steps);
    ranks.reset();
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace tandem::test
