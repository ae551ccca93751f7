#include "islands/loss_watch.hpp"

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <tandem/collectives.hpp>
#include <thread>
#include <utility>

#include "collectives/job.hpp"
#include "communicator/group.hpp"
#include "islands/peer_watch.hpp"

namespace tandem::detail {
namespace {

using test::job;

/// Rank 0 watches rank 1 without any pending operation.
class LossWatch : public testing::Test {
 protected:
  LossWatch() {
    const auto connect = [this](int r) -> asio::awaitable<void> {
      detail::group& group = *ranks.world(r).internals();
      for (int peer = 0; peer < 3; ++peer) {
        if (peer != r) co_await group.connect(peer);
      }
    };
    EXPECT_EQ(ranks.run(connect), "");
    watch.emplace(*ranks.world(0).internals(), 1, [this](const error& why) {
      EXPECT_FALSE(reported) << "once";
      reported = why;
    });
    poll();
  }
  void poll() {
    ranks.context.restart();
    ranks.context.poll();
  }
  void lose(std::size_t rank) {
    ranks.worlds[rank].reset();
    ranks.fabrics[rank].reset();
    poll();
  }

  job ranks{3};
  std::optional<loss_watch> watch;
  std::optional<error> reported;
};

TEST_F(LossWatch, ReportsLossOfPeer) {
  EXPECT_FALSE(reported);
  lose(1);
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->code(), errc::peer_lost);
  EXPECT_EQ(reported->context().peer, 1);
}

TEST_F(LossWatch, ReportsLossOfOtherRanks) {
  lose(2);
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->code(), errc::peer_lost);
  EXPECT_EQ(reported->context().peer, 2);
}

TEST_F(LossWatch, ReportsOrderlyClose) {
  ranks.fabrics[1]->close();
  poll();
  ASSERT_TRUE(reported);
  EXPECT_EQ(reported->code(), errc::peer_closed);
}

TEST_F(LossWatch, ReportsNothingAfterDestruction) {
  watch.reset();
  poll();
  lose(1);
  EXPECT_FALSE(reported);
}

/// A peer that has closed is reported by `peer_watch` a second later.
TEST_F(LossWatch, OfPeersEndsWithItsTimerExpired) {
  watch.reset();
  int reports = 0;
  std::optional<peer_watch> first(std::in_place, *ranks.world(0).internals(), 1,
                                  [&reports](const error&) { ++reports; });
  poll();
  boost::asio::steady_timer before(ranks.context, std::chrono::milliseconds(500));
  before.async_wait([&first](const error_code&) { first.reset(); });
  ranks.fabrics[1]->close();
  poll();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  poll();  // both timers have expired, of which the first ends the watch
  EXPECT_FALSE(first);
  EXPECT_EQ(reports, 0);
}

TEST_F(LossWatch, OfPeersReportsOrderlyCloseLater) {
  watch.reset();
  int reports = 0;
  const peer_watch other(*ranks.world(0).internals(), 1, [&reports](const error& why) {
    reports += why.code() == errc::peer_closed;
  });
  poll();
  ranks.fabrics[1]->close();
  poll();
  EXPECT_EQ(reports, 0);
  ranks.context.restart();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (reports == 0 && ranks.context.run_one_until(limit) > 0) {
  }
  EXPECT_EQ(reports, 1);
}

TEST_F(LossWatch, DoesNotDisturbCollectives) {
  const auto meet = [this](int r) -> asio::awaitable<void> { co_await barrier(ranks.world(r)); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ranks.run(meet), "");
  EXPECT_FALSE(reported);
}

}  // namespace
}  // namespace tandem::detail
