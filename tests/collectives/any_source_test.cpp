// Receives from whichever rank sends, and probes.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <map>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>

#include "job.hpp"

namespace tandem::test {
namespace {

using ints = std::vector<std::int32_t>;

/// A client: sends `count` messages of growing length, each with its number first.
asio::awaitable<void> send_many(communicator& from, int count, std::size_t step) {
  for (int i = 0; i < count; ++i) {
    ints message(1 + static_cast<std::size_t>(i) * step, from.rank());
    message[0] = i;
    co_await from.send(0, message, 7);
  }
}

/// The server: the messages of each rank arrive in order and whole.
asio::awaitable<void> serve(communicator& at, int count, std::size_t step,
                            std::vector<int>& order) {
  ints into(1 + static_cast<std::size_t>(count) * step);
  std::map<int, int> next;
  for (int i = 0; i < count * (at.size() - 1); ++i) {
    const received_message got = co_await at.recv_any(into, 7);
    const int number = next[got.from]++;
    const std::size_t length = 1 + static_cast<std::size_t>(number) * step;
    EXPECT_EQ(got.bytes, length * sizeof(std::int32_t));
    EXPECT_EQ(into[0], number) << "from " << got.from;
    if (length > 1) {
      EXPECT_EQ(into[length - 1], got.from);
    }
    order.push_back(got.from);
  }
}

class AnySource : public testing::TestWithParam<fabric_kind> {};

TEST_P(AnySource, AServerWithClients) {
  for (const int clients : {1, 3, 8}) {
    job ranks(GetParam(), clients + 1, small_pieces());
    std::vector<int> order;
    const std::string failure = ranks.run([&](int r) {
      return r == 0 ? serve(ranks.world(0), 20, 97, order) : send_many(ranks.world(r), 20, 97);
    });
    EXPECT_EQ(failure, "") << clients;
    EXPECT_EQ(order.size(), static_cast<std::size_t>(20 * clients));
  }
}

TEST_P(AnySource, RanksThatSendAreServedInTurn) {
  job ranks(GetParam(), 4, small_pieces());
  std::vector<int> order;
  const auto all_sent = [&](int r) -> asio::awaitable<void> {
    communicator& world = ranks.world(r);
    // Short messages: sent before the server looks.
    if (r != 0) co_await send_many(world, 5, 0);
    co_await barrier(world);
    if (r == 0) co_await serve(world, 5, 0, order);
  };
  EXPECT_EQ(ranks.run(all_sent), "");
  ASSERT_EQ(order.size(), 15u);
  for (std::size_t i = 3; i < order.size(); ++i) EXPECT_EQ(order[i], order[i - 3]) << i;
}

INSTANTIATE_TEST_SUITE_P(Over, AnySource, testing::ValuesIn(fabric_kinds()), name_of_kind);

TEST(AnySource, OtherTagsAreLeft) {
  job ranks(3);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    communicator& world = ranks.world(r);
    ints value(1, r);
    if (r != 0) {
      co_await world.send(0, value, 1);
      co_await world.send(0, value, 2);
      co_return;
    }
    for (const int expected : {1, 2}) {
      const received_message got = co_await world.recv_any(value, 2);
      EXPECT_EQ(got.from, expected);
    }
    const std::size_t bytes = co_await world.probe(2, 1);
    EXPECT_EQ(bytes, sizeof(std::int32_t));
    for (const int from : {2, 1}) {
      co_await world.recv(from, value, 1);
      EXPECT_EQ(value[0], from);
    }
  };
  EXPECT_EQ(ranks.run(body), "");
}

TEST(AnySource, ClientsLeaveOneByOne) {
  job ranks(3);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    communicator& world = ranks.world(r);
    ints value(1, r);
    if (r != 0) {
      co_await world.send(0, value);
      ranks.fabrics[static_cast<std::size_t>(r)]->close();
      co_return;
    }
    for (int i = 0; i < 2; ++i) co_await world.recv_any(value);
    co_await world.recv_any(value);
  };
  ranks.start(body);
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::peer_closed) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("all other ranks have left"), std::string::npos) << ranks.text(0);
}

TEST(AnySource, ALostClientEndsIt) {
  job ranks(3);
  ints value(1);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    if (r != 0) co_return;
    co_await ranks.world(0).recv_any(value);
  };
  ranks.start(body);
  ASSERT_TRUE(ranks.finish(1));
  ranks.context.poll();
  ranks.worlds[2].reset();
  ranks.fabrics[2].reset();
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::peer_lost) << ranks.text(0);
}

TEST(AnySource, HasATimeLimit) {
  job ranks(3);
  ints value(1, 5);
  ranks.world(0).set_timeout(std::chrono::milliseconds(30));
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    if (r != 0) co_return;
    co_await ranks.world(0).recv_any(value);
  };
  ranks.start(body);
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::timed_out) << ranks.text(0);
}

/// A message that comes after the cancellation is for the next call.
TEST(AnySource, CanBeCancelled) {
  job ranks(3);
  ints value(1);
  asio::cancellation_signal stop;
  std::exception_ptr ended;
  const auto receive = [&]() -> asio::awaitable<void> { co_await ranks.world(0).recv_any(value); };
  asio::co_spawn(
      ranks.context, receive(),
      asio::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr e) { ended = e; }));
  ranks.context.poll();
  stop.emit(asio::cancellation_type::terminal);
  for (int i = 0; i < 100 && !ended; ++i) ranks.context.poll();
  ASSERT_TRUE(ended);
  const auto later = [&](int r) -> asio::awaitable<void> {
    ints sent(1, 40 + r);
    if (r == 2) co_await ranks.world(2).send(0, sent);
    if (r != 0) co_return;
    const received_message got = co_await ranks.world(0).recv_any(value);
    EXPECT_EQ(got.from, 2);
  };
  EXPECT_EQ(ranks.run(later), "");
  EXPECT_EQ(value[0], 42);
}

/// Stopping the program in any step must not leak or access memory late.
TEST(AnySource, StoppingAfterAnyStepIsSafe) {
  bool ended = false;
  for (int steps = 0; !ended; ++steps) {
    ASSERT_LT(steps, 100'000);
    std::vector<ints> memory(3, ints(500));
    job ranks(3, small_pieces());
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      ints& own = memory[static_cast<std::size_t>(r)];
      if (r != 0) co_await ranks.world(r).send(0, own);
      for (int i = 0; r == 0 && i < 2; ++i) co_await ranks.world(0).recv_any(own);
    };
    ranks.start(body);
    int left = steps;
    while (left > 0 && ranks.running > 0) left -= static_cast<int>(ranks.context.poll_one()) > 0;
    ended = ranks.running == 0;
  }
}

TEST(AnySource, RefusesAGroupOfOneAndStrangers) {
  job alone(1);
  ints value(1);
  const job::rank_body body = [&](int) -> asio::awaitable<void> {
    co_await alone.world(0).recv_any(value);
  };
  alone.start(body);
  ASSERT_TRUE(alone.finish());
  EXPECT_EQ(alone.code(0), errc::bad_input);
  const job::rank_body outside = [&](int) -> asio::awaitable<void> {
    co_await alone.world(0).probe(3);
  };
  alone.start(outside);
  ASSERT_TRUE(alone.finish());
  EXPECT_EQ(alone.code(0), errc::bad_input);
  EXPECT_NE(alone.text(0).find("probe: no rank 3 in a group of 1"), std::string::npos);
}

}  // namespace
}  // namespace tandem::test
