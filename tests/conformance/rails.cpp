// The channel suite over two lanes, over one, and over two that are reset repeatedly.

#include <boost/asio/use_awaitable.hpp>

#include "support/channel_case.hpp"
#include "support/rails_rig.hpp"

namespace tandem::test {
namespace {

awaitable<channel_pair> connect_two(settings options) {
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(options, 2);
  co_return rig->channels();
}

awaitable<channel_pair> connect_one(settings options) {
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(options, 1);
  co_return rig->channels();
}

awaitable<channel_pair> connect_cut(settings options) {
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(options, 2);
  rig->keep_cutting(10ms);
  co_return rig->channels();
}

INSTANTIATE_TEST_SUITE_P(
    rails, channel_test,
    testing::Values(channel_case{"rails", connect_two}, channel_case{"rails_of_one", connect_one},
                    channel_case{"rails_polled", connect_two, drive::by_spinning},
                    channel_case{"rails_cut", connect_cut, drive::by_asio, true, false}),
    case_name);

bool is_up_under(const channel& end, std::size_t rail, std::uint32_t epoch) {
  const rail_stats one = end.rails()[rail];
  return one.state == "up" && one.epoch == epoch;
}

awaitable<void> count_and_cut() {
  constexpr std::uint64_t bytes = 4'000'000;
  const std::shared_ptr<rails_rig> rig = co_await rails_rig::connect(settings{}, 2);
  const channel_pair ends = rig->channels();
  background receiver(rig->ends[0]->get_executor(), recv_pattern(*ends.second, 0, bytes, 1));
  co_await send_pattern(*ends.first, 0, bytes, 1);
  co_await receiver.result();
  std::uint64_t there = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const rail_stats here = ends.first->rails()[i];
    EXPECT_EQ(here.times_lost, 0u);
    EXPECT_EQ(here.why_lost, "");
    EXPECT_EQ(here.epoch, 1u);
    there += ends.second->rails()[i].bytes_received;
    EXPECT_GE(ends.second->rails()[i].bytes_received, here.bytes_arrived);
  }
  EXPECT_GE(there, bytes);
  EXPECT_LE(there, bytes + bytes / 100) << "a percent for all headers";

  rig->ends[0]->cut(0);
  const auto is_back = [&ends] {
    return is_up_under(*ends.first, 0, 2) && is_up_under(*ends.second, 0, 2);
  };
  co_await until(is_back, "the lane comes back");
  EXPECT_EQ(ends.first->rails()[0].times_lost, 1u);
  EXPECT_EQ(ends.first->rails()[0].why_lost, "reset on request");
  EXPECT_EQ(ends.second->rails()[0].times_lost, 1u);
  EXPECT_NE(ends.second->rails()[0].why_lost, "");
  EXPECT_EQ(ends.first->rails()[1].times_lost, 0u);
  EXPECT_GE(ends.second->rails()[0].bytes_received + ends.second->rails()[1].bytes_received, there)
      << "what was counted stays";
}

TEST(rails_stats, count_what_each_end_received_and_lost) {
  run_test(count_and_cut());
}

}  // namespace
}  // namespace tandem::test
