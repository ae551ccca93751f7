#include "islands/loss_watch.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <tandem/collectives.hpp>

#include "collectives/job.hpp"
#include "communicator/group.hpp"

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

TEST_F(LossWatch, DoesNotDisturbCollectives) {
  const auto meet = [this](int r) -> asio::awaitable<void> { co_await barrier(ranks.world(r)); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ranks.run(meet), "");
  EXPECT_FALSE(reported);
}

}  // namespace
}  // namespace tandem::detail
