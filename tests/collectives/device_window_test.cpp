// Windows of memory on simulated devices.
#include <gtest/gtest.h>

#include <tandem/collectives.hpp>
#include <tandem/window.hpp>

#include "collectives/device_job.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t lengths[] = {1, 40, 5000, 100'000};

class WindowOnDevices : public testing::TestWithParam<device_of_rank> {
 protected:
  devices_with_kernels devices;
};

TEST_P(WindowOnDevices, PutsAndGets) {
  for (const std::size_t length : lengths) {
    device_job ranks(3, small_pieces(), GetParam());
    std::vector<std::vector<std::byte>> memory(3, std::vector<std::byte>(3 * length));
    std::vector<std::vector<std::byte>> sent, got(3, std::vector<std::byte>(length));
    for (std::uint64_t r = 0; r < 3; ++r) sent.push_back(pattern(length, r));
    const auto body = [&](int r) -> asio::awaitable<void> {
      const auto at = static_cast<std::size_t>(r);
      const mutable_view own = ranks.there(r, mutable_view(memory[at]));
      const const_view message = ranks.there(r, const_view(sent[at]));
      const mutable_view back = ranks.there(r, mutable_view(got[at]));
      window shared = co_await make_window(ranks.world(r), own);
      for (const int to : {(r + 1) % 3, (r + 2) % 3}) {
        co_await shared.put(to, at * length, message, 5);
        const window_notification arrived = co_await shared.notified();
        EXPECT_EQ(arrived.value, 5u);
        EXPECT_EQ(arrived.bytes, length);
      }
      co_await shared.get((r + 1) % 3, at * length, back);
      co_await shared.close();
    };
    ASSERT_EQ(ranks.run(body), "") << length;
    ranks.copy_back();
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(got[r], sent[r]) << length;
      for (std::size_t from = 0; from < 3; ++from) {
        if (from == r) continue;
        const auto begin = memory[r].begin() + static_cast<std::ptrdiff_t>(from * length);
        EXPECT_TRUE(std::equal(sent[from].begin(), sent[from].end(), begin)) << length;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WindowOnDevices, testing::Values(every_other_device, device_or_host),
                         [](const auto& one) {
                           return one.param == device_or_host ? "SomeRanks" : "EveryRank";
                         });

}  // namespace
}  // namespace tandem::test
