// Messages that copy engines carry out in the order of streams, on simulated devices. Through the C
// interface: tests/c/stream_messages_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/stream_messages.hpp>

#include "collectives/device_job.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t length = 100'000;

/// Two ranks that share memory, each on a device of its own.
class StreamsOfTwoRanks : public testing::Test {
 protected:
  using messages = std::unique_ptr<stream_messages>;

  static std::unique_ptr<device_job> make_job(device_of_rank where = every_other_device) {
    const fabric_kind& over = *std::ranges::find(fabric_kinds(), "shm", &fabric_kind::name);
    return std::make_unique<device_job>(over, 2, small_pieces(), where);
  }
  static accelerator& device_of(int rank) {
    return accelerator_at(memory_kind::cuda, every_other_device(rank));
  }
  static asio::awaitable<stream_messages::made> make(device_job& ranks, int rank,
                                                     std::size_t words = 4096) {
    const auto memory = std::make_shared<shm::shared_buffer>(words);
    stream_messages::shared_words shared{memory->view(), memory};
    stream_messages::made made = co_await stream_messages::make(
        ranks.world(rank), 1 - rank, device_of(rank), std::move(shared), [](const error&) {});
    co_return made;
  }
  static asio::awaitable<void> reach(int rank, accelerator::stream on) {
    device_watch watch(co_await asio::this_coro::executor, device_of(rank));
    co_await watch.reached(on);
  }
  /// Both ways. The first goes as an ordinary message, until the memory is mapped.
  static asio::awaitable<int> exchange(device_job& ranks, int rank, stream_messages& by,
                                       const_view sent, mutable_view received) {
    int queued = 0;
    const auto send = [&]() -> asio::awaitable<void> {
      const bool is_queued = co_await by.send(sent);
      if (is_queued) {
        ++queued;
        co_await reach(rank, by.sends());
      } else {
        co_await ranks.world(rank).send(1 - rank, sent, 7);
      }
    };
    const auto receive = [&]() -> asio::awaitable<void> {
      const std::uint32_t number = co_await by.recv(received);
      if (number == 0) {
        co_await ranks.world(rank).recv(1 - rank, received, 7);
        co_return;
      }
      ++queued;
      const stream_messages::outcome got = co_await by.answer();
      EXPECT_TRUE(got.is_queued);
      EXPECT_EQ(got.bytes, sent.bytes);
      co_await reach(rank, by.receives());
    };
    std::vector<asio::awaitable<void>> both;
    both.push_back(send());
    both.push_back(receive());
    co_await when_all(std::move(both));
    co_return queued;
  }

  devices_with_kernels devices;
};

TEST_F(StreamsOfTwoRanks, ExchangeBothWays) {
  const auto ranks = make_job();
  std::vector<std::vector<std::byte>> sent, got(2, std::vector<std::byte>(length));
  for (std::uint64_t r = 0; r < 2; ++r) sent.push_back(pattern(length, r));
  std::array<int, 2> queued{};
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    const auto at = static_cast<std::size_t>(r);
    const const_view message = ranks->there(r, const_view(sent[at]));
    const mutable_view into = ranks->there(r, mutable_view(got[at]));
    stream_messages::made made = co_await make(*ranks, r);
    EXPECT_EQ(made.why_not, "");
    for (int i = 0; i < 4; ++i) {
      queued[at] += co_await exchange(*ranks, r, *made.messages, message, into);
    }
  };
  ASSERT_EQ(ranks->run(body), "");
  ranks->copy_back();
  EXPECT_EQ(got[0], sent[1]);
  EXPECT_EQ(got[1], sent[0]);
  EXPECT_GE(queued[0] + queued[1], 8);
}

TEST_F(StreamsOfTwoRanks, WhatIsNotPossibleIsSaidOnBoth) {
  const auto ranks = make_job();
  const job::rank_body without_words = [&](int r) -> asio::awaitable<void> {
    const stream_messages::made made = co_await make(*ranks, r, r == 0 ? 4096 : 0);
    EXPECT_EQ(made.messages, nullptr);
    EXPECT_EQ(made.why_not, r == 0 ? "the other rank cannot" : "the ranks share no memory");
  };
  ASSERT_EQ(ranks->run(without_words), "");
}

TEST_F(StreamsOfTwoRanks, AbortEndsCalls) {
  const auto ranks = make_job();
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    stream_messages::made made = co_await make(*ranks, r);
    const error why(errc::peer_lost, "for a test");
    made.messages->abort(why);
    error_code failure;
    std::byte one{};
    // The peer posts a receive, so that the send takes it.
    if (r == 0) {
      try {
        co_await made.messages->send(const_view(&one, 1));
      } catch (const error& e) {
        failure = e.code();
      }
    } else {
      try {
        co_await made.messages->recv(mutable_view(&one, 1));
      } catch (const error& e) {
        failure = e.code();
      }
    }
    EXPECT_EQ(failure, errc::peer_lost);
  };
  ASSERT_EQ(ranks->run(body), "");
}

/// Stopping the program in any step must not leak or access memory late.
TEST_F(StreamsOfTwoRanks, StoppingAfterAnyStepIsSafe) {
  bool ended = false;
  for (int steps = 0; !ended; steps += 1 + steps / 100) {
    ASSERT_LT(steps, 100'000);
    SCOPED_TRACE(steps);
    std::vector<std::byte> sent = pattern(length, 1);
    std::vector<std::vector<std::byte>> got(2, std::vector<std::byte>(length));
    auto ranks = make_job();
    const job::rank_body body = [&](int r) -> asio::awaitable<void> {
      const const_view message = ranks->there(r, const_view(sent));
      const mutable_view into = ranks->there(r, mutable_view(got[static_cast<std::size_t>(r)]));
      stream_messages::made made = co_await make(*ranks, r);
      for (int i = 0; i < 3; ++i) co_await exchange(*ranks, r, *made.messages, message, into);
    };
    ranks->start(body);
    ended = ranks->step(steps);
    ranks.reset();
    ASSERT_FALSE(HasFailure());
  }
}

/// What a hostile or confused rank may announce.
TEST_F(StreamsOfTwoRanks, LocationsThatAreNotWhatTheySay) {
  const auto ranks = make_job();
  std::vector<std::byte> memory(length);
  memory_location right{};
  const job::rank_body body = [&](int r) -> asio::awaitable<void> {
    channel& peer = co_await ranks->fabrics[static_cast<std::size_t>(r)]->to(1 - r);
    const mutable_view own = ranks->there(r, mutable_view(memory));
    std::byte turn{};
    for (int i = 0; i < 100; ++i) {
      const memory_location found = peer.locate_memory(own);  // on both: each opens for its device
      if (r == 1) right = found;
      const const_view out(&turn, 1);
      const mutable_view in(&turn, 1);
      co_await ranks->world(r).sendrecv(1 - r, out, 1 - r, in);
    }
    EXPECT_NE(right, memory_location{});
    EXPECT_EQ(peer.locate_memory({}), memory_location{});
    if (r == 1) co_return;
    accelerator& here = device_of(0);
    EXPECT_NE(peer.map_memory(right, length, here), nullptr);
    EXPECT_EQ(peer.map_memory(memory_location{}, length, here), nullptr);
    EXPECT_EQ(peer.map_memory(right, std::size_t{1} << 40, here), nullptr);
    for (std::size_t field = 0; field < 2; ++field) {
      for (const std::uint64_t more : {std::uint64_t{1} << 40, ~std::uint64_t{0} - right[field]}) {
        memory_location wrong = right;
        wrong[field] += more;
        EXPECT_EQ(peer.map_memory(wrong, length, here), nullptr) << field;
      }
    }
  };
  ASSERT_EQ(ranks->run(body), "");
}

}  // namespace
}  // namespace tandem::test
