// Windows whose memory the ranks of a host have mapped.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>
#include <tandem/window.hpp>

#include "job.hpp"
#include "support/coroutine_test.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

/// More than one piece of a copy.
constexpr std::size_t many_pieces = 3'500'000;

const fabric_kind& kind_named(std::string_view name) {
  return *std::ranges::find(fabric_kinds(), name, &fabric_kind::name);
}

/// Two ranks over shared memory, each with a window of this many bytes that is mapped.
struct mapped_pair {
  explicit mapped_pair(std::size_t length, std::string_view kind = "shm")
      : ranks(kind_named(kind), 2, small_pieces()) {
    for (int r = 0; r < 2; ++r) memory.emplace_back(length);
  }
  asio::awaitable<window> make(int r) {
    return make_window(ranks.world(r), memory[static_cast<std::size_t>(r)].view());
  }
  std::vector<std::byte> content(std::size_t r, std::size_t offset, std::size_t length) const {
    const std::byte* const from = memory[r].data() + offset;
    return {from, from + length};
  }

  std::vector<shm::shared_buffer> memory;
  job ranks;
};

TEST(MappedWindow, OnlySharedBuffersOfTheHostAreMapped) {
  for (const fabric_kind& kind : fabric_kinds()) {
    job ranks(kind, 4, small_pieces());
    std::vector<shm::shared_buffer> memory;
    for (int r = 0; r < 4; ++r) memory.emplace_back(100);
    std::vector<std::byte> plain(100);
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      // Rank 3 has memory of its own, rank 2 the end of a shared buffer.
      mutable_view own = memory[static_cast<std::size_t>(r)].view();
      if (r == 2) own = own.part(60, 40);
      if (r == 3) own = plain;
      window shared = co_await make_window(ranks.world(r), own);
      for (int to = 0; to < 4; ++to) {
        const bool is_expected =
            to != r && to != 3 && ranks.fabrics[static_cast<std::size_t>(r)]->kind_to(to) == "shm";
        EXPECT_EQ(shared.is_mapped(to), is_expected) << kind.name << ' ' << r << ' ' << to;
      }
      if (r == 0) {
        const std::string_view text = "forty bytes from rank 0 for ranks 2 and 3";
        for (const int to : {2, 3}) co_await shared.put(to, 0, text.substr(0, 40));
        for (const int to : {2, 3}) co_await shared.flush(to);
        EXPECT_EQ(std::memcmp(memory[2].data() + 60, text.data(), 40), 0);
        EXPECT_EQ(std::memcmp(plain.data(), text.data(), 40), 0);
      }
      co_await shared.close();
    };
    EXPECT_EQ(ranks.run(body), "") << kind.name;
  }
}

TEST(MappedWindow, PutsAndGetsSendNoMessages) {
  mapped_pair two(many_pieces);
  const std::vector<std::byte> out = pattern(many_pieces, 1);
  std::vector<std::byte> back(many_pieces);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    window shared = co_await two.make(r);
    co_await barrier(two.ranks.world(r));
    if (r == 0) {
      const channel& to = *two.ranks.fabrics[0]->find(1);
      const std::uint64_t before = to.stats().messages_sent;
      co_await shared.put(1, 0, out);
      EXPECT_EQ(two.content(1, 0, many_pieces), out);
      co_await shared.flush(1);
      co_await shared.get(1, 0, back);
      EXPECT_EQ(back, out);
      EXPECT_EQ(to.stats().messages_sent, before);
      co_await shared.put(1, 7, {}, 3);
      EXPECT_EQ(to.stats().messages_sent, before + 1);
    } else {
      const window_notification got = co_await shared.notified();
      EXPECT_EQ(got.value, 3u);
      EXPECT_EQ(got.offset, 7u);
      EXPECT_EQ(got.bytes, 0u);
    }
    co_await shared.close();
  };
  EXPECT_EQ(two.ranks.run(body), "");
}

/// A short put must not overtake a long one, nor its notification the bytes of either.
TEST(MappedWindow, CallsToOneRankKeepTheirOrder) {
  mapped_pair two(many_pieces + 8);
  const std::vector<std::byte> first = pattern(many_pieces, 1), second = pattern(8, 2);
  const std::vector<std::byte> third = pattern(many_pieces, 3);
  std::vector<std::byte> back(many_pieces);
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    window shared = co_await two.make(r);
    if (r == 0) {
      std::vector<asio::awaitable<void>> calls;
      calls.push_back(shared.put(1, 0, first, 1));
      calls.push_back(shared.put(1, many_pieces, second, 2));
      calls.push_back(shared.flush(1));
      calls.push_back(shared.get(1, 0, back));
      calls.push_back(shared.put(1, 0, third));
      co_await when_all(std::move(calls));
      EXPECT_EQ(back, first);
    } else {
      for (const std::uint64_t value : {1, 2}) {
        const window_notification got = co_await shared.notified();
        EXPECT_EQ(got.value, value);
        if (value == 2) {
          EXPECT_EQ(two.content(1, many_pieces, 8), second);
        }
      }
    }
    co_await shared.close();
  };
  EXPECT_EQ(two.ranks.run(body), "");
}

/// Waiting for its turn, a call has no effect; begun, it ends the job.
TEST(MappedWindow, Cancellation) {
  for (const bool begun : {false, true}) {
    mapped_pair two(many_pieces);
    const std::vector<std::byte> out = pattern(many_pieces, 1), other = pattern(100, 2);
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      window shared = co_await two.make(r);
      if (r == 0) {
        asio::cancellation_signal stop, unused;
        int over = 0, failed = 0;
        const auto count = [&](std::exception_ptr failure) {
          ++over;
          failed += failure ? 1 : 0;
        };
        asio::co_spawn(two.ranks.context, shared.put(1, 0, out),
                       asio::bind_cancellation_slot(begun ? stop.slot() : unused.slot(), count));
        asio::co_spawn(two.ranks.context, shared.put(1, 0, other),
                       asio::bind_cancellation_slot(begun ? unused.slot() : stop.slot(), count));
        co_await turns(1);
        EXPECT_EQ(over, 0);
        stop.emit(asio::cancellation_type::terminal);
        co_await turns(40);
        EXPECT_EQ(over, 2);
        EXPECT_EQ(failed, begun ? 2 : 1);
        if (!begun) {
          co_await shared.flush(1);
          EXPECT_EQ(two.content(1, 0, many_pieces), out);
        }
      }
      co_await shared.close();
    };
    two.ranks.start(body);
    ASSERT_TRUE(two.ranks.finish());
    EXPECT_EQ(two.ranks.code(0), two.ranks.code(1)) << two.ranks.text(1);
    EXPECT_EQ(two.ranks.text(0) == "no error", !begun) << two.ranks.text(0);
  }
}

/// Stopping the program in any step must not leak or access memory late.
TEST(MappedWindow, StoppingAfterAnyStepIsSafe) {
  bool ended = false;
  for (int steps = 0; !ended; ++steps) {
    ASSERT_LT(steps, 100'000);
    std::vector<std::byte> message(2'500'000), back(2'500'000);
    mapped_pair two(message.size());
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      window shared = co_await two.make(r);
      if (r == 0) {
        std::vector<asio::awaitable<void>> calls;
        calls.push_back(shared.put(1, 0, message, 1));
        calls.push_back(shared.get(1, 0, back));
        co_await when_all(std::move(calls));
      } else {
        co_await shared.notified();
      }
      co_await shared.close();
    };
    two.ranks.start(body);
    int left = steps;
    while (left > 0 && two.ranks.running > 0)
      left -= static_cast<int>(two.ranks.context.poll_one()) > 0;
    ended = two.ranks.running == 0;
  }
}

/// What a hostile or confused rank may announce.
TEST(MappedWindow, LocationsThatAreNotWhatTheySay) {
  mapped_pair two(5000);
  fabric& here = *two.ranks.fabrics[0];
  const memory_location right = two.ranks.fabrics[1]->locate_memory(two.memory[1].view());
  const auto bytes = two.memory[1].size();
  EXPECT_EQ(here.locate_memory({}), memory_location{});
  ASSERT_NE(here.map_memory(1, right, bytes), nullptr);
  EXPECT_EQ(here.map_memory(1, memory_location{}, bytes), nullptr);
  for (std::size_t field = 0; field < right.size(); ++field) {
    memory_location wrong = right;
    wrong[field] += 1'000'000;
    EXPECT_EQ(here.map_memory(1, wrong, bytes), nullptr) << field;
  }
  memory_location late = right;
  late[3] = ~std::uint64_t{0};
  EXPECT_EQ(here.map_memory(1, late, bytes), nullptr);
  EXPECT_EQ(here.map_memory(1, right, bytes + 1), nullptr);
  EXPECT_NE(here.map_memory(1, right, 0), nullptr);
}

}  // namespace
}  // namespace tandem::test
