// Windows: memory that other ranks write and read.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <optional>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <tandem/window.hpp>

#include "job.hpp"
#include "support/coroutine_test.hpp"
#include "support/pattern.hpp"
#include "windows/request.hpp"

namespace tandem::test {
namespace {

using bytes = std::vector<std::byte>;
constexpr std::size_t lengths[] = {0, 1, 40, 513, 5000, 100'000};

/// Over a fabric, with memory that ranks of a host can map, or that they cannot.
class Window : public testing::TestWithParam<std::tuple<fabric_kind, bool>> {
 protected:
  const fabric_kind& kind() const { return std::get<0>(GetParam()); }
  bool is_shared() const { return std::get<1>(GetParam()); }
};

/// A rank's memory, all of it that value.
class window_memory {
 public:
  window_memory(bool is_shared, std::size_t length, std::byte value = {})
      : shared_(is_shared ? length : 0), own_(is_shared ? 0 : length) {
    std::fill(begin(), begin() + static_cast<std::ptrdiff_t>(length), value);
  }
  std::byte* begin() { return own_.empty() ? shared_.data() : own_.data(); }
  mutable_view view() { return {begin(), own_.size() + shared_.size()}; }
  bytes part(std::size_t offset, std::size_t length) {
    const std::byte* const from = begin() + offset;
    return {from, from + length};
  }

 private:
  shm::shared_buffer shared_;
  bytes own_;
};

std::uint64_t seed_of(int from, int to, std::size_t length) {
  return static_cast<std::uint64_t>(from * 100 + to) * 1'000'000 + length;
}

/// Each rank puts a pattern into its part of the memory of each other rank, and reads it back.
asio::awaitable<void> put_and_get(communicator& world, bool is_shared) {
  const auto size = static_cast<std::size_t>(world.size());
  for (const std::size_t length : lengths) {
    window_memory memory(is_shared, size * length + 3, std::byte{7});
    window shared = co_await make_window(world, memory.view());
    EXPECT_EQ(shared.bytes(0), memory.view().bytes);
    const std::size_t own = static_cast<std::size_t>(world.rank()) * length;
    for (int to = 0; to < world.size(); ++to) {
      if (to == world.rank()) continue;
      const bytes message = pattern(length, seed_of(world.rank(), to, length));
      co_await shared.put(to, own, message);
      bytes back(length);
      co_await shared.get(to, own, back);
      EXPECT_EQ(back, message) << length;
    }
    co_await shared.close();
    for (int from = 0; from < world.size(); ++from) {
      if (from == world.rank()) continue;
      const bytes arrived = memory.part(length * static_cast<std::size_t>(from), length);
      EXPECT_EQ(arrived, pattern(length, seed_of(from, world.rank(), length))) << length;
    }
    EXPECT_EQ(memory.part(size * length, 3), bytes(3, std::byte{7}));
  }
}

TEST_P(Window, PutsAndGetsOfAllRanks) {
  for (const int size : {2, 4}) {
    job ranks(kind(), size, small_pieces());
    EXPECT_EQ(ranks.run([&](int r) { return put_and_get(ranks.world(r), is_shared()); }), "");
  }
}

TEST_P(Window, NotificationsComeInOrderAndAfterTheBytes) {
  constexpr int count = 60;
  constexpr std::size_t part = 3000;
  job ranks(kind(), 3, small_pieces());
  std::vector<window_memory> memory;
  for (int r = 0; r < 3; ++r) memory.emplace_back(is_shared(), 2 * part * count);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    communicator& world = ranks.world(r);
    window_memory& own = memory[static_cast<std::size_t>(r)];
    window shared = co_await make_window(world, own.view());
    if (r != 0) {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t length = i % 3 == 0 ? 8 : part;
        const bytes message = pattern(length, i + static_cast<std::uint64_t>(r) * 1000);
        const std::size_t slot = (static_cast<std::size_t>(r) - 1) * count + i;
        co_await shared.put(0, slot * part, message, i);
      }
    } else {
      std::array<std::uint64_t, 3> next{};
      for (int i = 0; i < 2 * count; ++i) {
        const window_notification got = co_await shared.notified();
        EXPECT_EQ(got.value, next[static_cast<std::size_t>(got.from)]++);
        const bytes arrived = own.part(got.offset, got.bytes);
        EXPECT_EQ(arrived,
                  pattern(got.bytes, got.value + static_cast<std::uint64_t>(got.from) * 1000));
      }
    }
    co_await shared.close();
  };
  EXPECT_EQ(ranks.run(body), "");
}

/// Many at once, in both directions, and two windows.
TEST_P(Window, ManyRequestsAtOnce) {
  constexpr std::size_t count = 40, part = 2000;
  job ranks(kind(), 2, small_pieces());
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    window_memory first(is_shared(), count * part), second(false, count * part);
    window one = co_await make_window(ranks.world(r), first.view());
    window two = co_await make_window(ranks.world(r), second.view());
    const bytes out = pattern(count * part, static_cast<std::uint64_t>(r));
    const const_view all(out);
    std::vector<asio::awaitable<void>> puts;
    for (std::size_t i = 0; i < count; ++i) {
      puts.push_back((i % 2 == 0 ? one : two).put(1 - r, i * part, all.part(i * part, part)));
    }
    co_await when_all(std::move(puts));
    bytes in(count * part);
    const mutable_view into(in);
    std::vector<asio::awaitable<void>> gets;
    for (std::size_t i = 0; i < count; ++i) {
      gets.push_back((i % 2 == 0 ? one : two).get(1 - r, i * part, into.part(i * part, part)));
    }
    co_await when_all(std::move(gets));
    EXPECT_EQ(in, out);
    co_await one.close();
    co_await two.close();
  };
  EXPECT_EQ(ranks.run(body), "");
}

INSTANTIATE_TEST_SUITE_P(Over, Window,
                         testing::Combine(testing::ValuesIn(fabric_kinds()), testing::Bool()),
                         [](const auto& of) {
                           const bool is_shared = std::get<1>(of.param);
                           return std::get<0>(of.param).name + (is_shared ? "_shared" : "");
                         });

/// The error of a call, which changes nothing.
asio::awaitable<void> expect_refused(asio::awaitable<void> call, errc code, std::string words) {
  std::optional<error> failure;
  try {
    co_await std::move(call);
  } catch (const error& e) {
    failure = e;
  }
  EXPECT_TRUE(failure) << words;
  if (!failure) co_return;
  EXPECT_EQ(failure->code(), code) << failure->what();
  EXPECT_NE(std::string(failure->what()).find(words), std::string::npos) << failure->what();
}

TEST(Window, BadInputChangesNothing) {
  job ranks(2);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    bytes memory(r == 0 ? 100 : 0), data(101);
    window shared = co_await make_window(ranks.world(r), memory);
    EXPECT_EQ(shared.bytes(0), 100u);
    EXPECT_EQ(shared.bytes(1), 0u);
    EXPECT_THROW(shared.bytes(2), error);
    const const_view all(data);
    if (r == 1) {
      co_await expect_refused(shared.put(0, 0, all), errc::bad_input,
                              "put: 101 bytes at offset 0 of the 100 of rank 0");
      co_await expect_refused(shared.put(0, 100, all.part(0, 1)), errc::bad_input, "at offset 100");
      co_await expect_refused(shared.put(0, ~std::size_t{0}, all.part(0, 2)), errc::bad_input,
                              "put: 2 bytes");
      co_await expect_refused(shared.get(0, 1, mutable_view(data).part(0, 100)), errc::bad_input,
                              "get: 100 bytes at offset 1");
      co_await expect_refused(shared.put(1, 0, {}), errc::bad_input, "rank 1 is this rank");
      co_await expect_refused(shared.flush(5), errc::bad_input, "no rank 5 in a window of 2");
      co_await shared.put(0, 0, all.part(0, 100));
      co_await shared.put(0, 100, {}, 3);
    } else {
      const window_notification got = co_await shared.notified();
      EXPECT_EQ(got.value, 3u);
    }
    co_await shared.close();
    co_await expect_refused(shared.flush(1 - r), errc::channel_closed, "this window is closed");
    window moved = std::move(shared);
    EXPECT_THROW(shared.bytes(0), error);
  };
  EXPECT_EQ(ranks.run(body), "");
}

TEST(Window, ALostRankEndsCalls) {
  job ranks(3);
  bytes memory(3 * 5'000'000);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const mutable_view own =
        mutable_view(memory).part(static_cast<std::size_t>(r) * 5'000'000, 5'000'000);
    window shared = co_await make_window(ranks.world(r), own);
    if (r == 1) co_await shared.notified();
    co_await barrier(ranks.world(r));
    if (r == 0) co_await shared.flush(2);
  };
  ranks.start([&](int r) { return r == 2 ? nothing() : body(r); });
  ASSERT_TRUE(ranks.finish(2));
  ranks.context.poll();
  ranks.worlds[2].reset();
  ranks.fabrics[2].reset();
  ASSERT_TRUE(ranks.finish());
  for (const int r : {0, 1}) EXPECT_EQ(ranks.code(r), errc::peer_lost) << ranks.text(r);
}

TEST(Window, ALostRankEndsTheWaitForANotification) {
  job ranks(2);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    bytes memory(10);
    window shared = co_await make_window(ranks.world(r), memory);
    if (r == 0) co_await shared.notified();
    co_await barrier(ranks.world(r));  // not reached by rank 0
  };
  ranks.start(body);
  ASSERT_TRUE(ranks.finish(2));
  for (int i = 0; i < 50; ++i) ranks.context.poll();
  ranks.worlds[1].reset();
  ranks.fabrics[1].reset();
  ASSERT_TRUE(ranks.finish());
  // A channel in memory is closed before its peer learns of the loss.
  EXPECT_TRUE(ranks.code(0) == errc::peer_lost || ranks.code(0) == errc::peer_closed)
      << ranks.text(0);
}

TEST(Window, ACancelledWaitForANotificationHasNoEffect) {
  job ranks(2);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    bytes memory(10);
    window shared = co_await make_window(ranks.world(r), memory);
    if (r == 1) {
      co_await ranks.world(1).recv(0, {});
      co_await shared.put(0, 0, memory, 9);
    } else {
      asio::cancellation_signal stop;
      bool is_over = false;
      const auto wait = [&]() -> asio::awaitable<void> { co_await shared.notified(); };
      asio::co_spawn(ranks.context, wait(),
                     asio::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr e) {
                       EXPECT_TRUE(e);
                       is_over = true;
                     }));
      co_await turns(2);
      stop.emit(asio::cancellation_type::terminal);
      co_await turns(3);
      EXPECT_TRUE(is_over);
      co_await ranks.world(0).send(1, {});
      const window_notification got = co_await shared.notified();
      EXPECT_EQ(got.value, 9u);
    }
    co_await shared.close();
  };
  EXPECT_EQ(ranks.run(body), "");
}

/// Stopping the program in any step must not leak or access memory late.
TEST(Window, StoppingAfterAnyStepIsSafe) {
  bool ended = false;
  for (int steps = 0; !ended; ++steps) {
    ASSERT_LT(steps, 100'000);
    std::vector<bytes> memory(2, bytes(3000));
    bytes message(3000), back(3000);
    job ranks(2, small_pieces());
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      window shared = co_await make_window(ranks.world(r), memory[static_cast<std::size_t>(r)]);
      if (r == 0) {
        co_await shared.put(1, 0, message, 1);
        co_await shared.get(1, 0, back);
      } else {
        co_await shared.notified();
      }
      co_await shared.close();
    };
    ranks.start(body);
    int left = steps;
    while (left > 0 && ranks.running > 0) left -= static_cast<int>(ranks.context.poll_one()) > 0;
    ended = ranks.running == 0;
  }
}

/// The owner does not serve any more: the put of a rank that goes on all the same has a limit.
TEST(Window, APutToAWindowThatIsGoneTimesOut) {
  job ranks(2);
  ranks.world(1).set_timeout(std::chrono::milliseconds(50));
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    bytes memory(1'000'000);
    {
      window shared = co_await make_window(ranks.world(r), memory);
      co_await barrier(ranks.world(r));
      if (r == 1) co_await shared.flush(0);
    }
    if (r == 0) co_await barrier(ranks.world(0));
  };
  ranks.start(body);
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(1), errc::timed_out) << ranks.text(1);
  EXPECT_EQ(ranks.code(0), errc::timed_out) << ranks.text(0);
}

TEST(Window, ARankLeavesWithoutClosing) {
  job ranks(3);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    bytes memory(10);
    std::optional<window> shared = co_await make_window(ranks.world(r), memory);
    if (r != 1) {
      co_await shared->close();
    } else {
      co_await turns(20);  // the others' close has been answered
      shared.reset();
      ranks.fabrics[1]->close();
    }
  };
  ranks.start(body);
  ASSERT_TRUE(ranks.finish());
  for (const int r : {0, 2}) {
    EXPECT_EQ(ranks.code(r), errc::peer_closed) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("without closing this window"), std::string::npos);
  }
}

TEST(Window, RequestsOfAHostilePeer) {
  using request = detail::window_request;
  const request beyond{request::kind::get, 0, 5, 6, 0};
  const request huge{request::kind::put, 0, ~std::uint64_t{0}, 2, 0};
  request unknown;
  unknown.what = static_cast<request::kind>(77);
  for (const request& one : {beyond, huge, unknown}) {
    job ranks(2);
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      bytes memory(10);
      window shared = co_await make_window(ranks.world(r), memory);
      if (r == 1) {
        constexpr flow_id requests = 4u << 16;
        const request::wire message = one.encode();
        channel& raw = co_await ranks.fabrics[1]->to(0);
        co_await raw.send(requests, message);
      }
      co_await shared.notified();
    };
    ranks.start(body);
    ASSERT_TRUE(ranks.finish());
    EXPECT_EQ(ranks.code(0), errc::protocol_violation) << ranks.text(0);
  }
}

TEST(WindowRequest, EveryFieldAndKind) {
  using request = detail::window_request;
  for (std::uint64_t kind = 1; kind <= 6; ++kind) {
    const request one{static_cast<request::kind>(kind), 1, 0x0102030405060708, ~std::uint64_t{0},
                      42};
    const auto back = request::decode(one.encode());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->what, one.what);
    EXPECT_EQ(back->number, one.number);
    EXPECT_EQ(back->offset, one.offset);
    EXPECT_EQ(back->bytes, one.bytes);
    EXPECT_EQ(back->value, one.value);
  }
  request bad;
  for (const std::uint64_t kind : {0u, 7u}) {
    bad.what = static_cast<request::kind>(kind);
    EXPECT_FALSE(request::decode(bad.encode()));
  }
}

}  // namespace
}  // namespace tandem::test
