// Windows of memory on simulated devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
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

/// Puts out of device memory go by message also where the owner's memory is mapped; copies wait
/// for them.
TEST_F(WindowOnDevices, DeviceAndHostMemoryIntoMappedMemory) {
  constexpr std::size_t length = 1'200'000;
  const fabric_kind& over = *std::ranges::find(fabric_kinds(), "shm", &fabric_kind::name);
  device_job ranks(over, 2, small_pieces(), every_other_device);
  std::vector<shm::shared_buffer> memory;
  for (int r = 0; r < 2; ++r) memory.emplace_back(2 * length);
  const std::vector<std::byte> first = pattern(length, 1), second = pattern(10, 2);
  std::vector<std::byte> there(length), here(length), rest(length);
  const auto body = [&](int r) -> asio::awaitable<void> {
    window shared =
        co_await make_window(ranks.world(r), memory[static_cast<std::size_t>(r)].view());
    if (r == 0) {
      EXPECT_TRUE(shared.is_mapped(1));
      const const_view on_device = ranks.there(0, const_view(first));
      const mutable_view back = ranks.there(0, mutable_view(there));
      std::vector<asio::awaitable<void>> calls;
      calls.push_back(shared.put(1, 0, on_device));
      calls.push_back(shared.put(1, 5, second));  // over a part of it
      calls.push_back(shared.get(1, 0, here));
      calls.push_back(shared.put(1, length, on_device, 7));
      calls.push_back(shared.get(1, 0, back));
      calls.push_back(shared.flush(1));
      calls.push_back(shared.get(1, length, rest));
      co_await when_all(std::move(calls));
    } else {
      const window_notification got = co_await shared.notified();
      EXPECT_EQ(got.value, 7u);
      EXPECT_EQ(got.bytes, length);
    }
    co_await shared.close();
  };
  ASSERT_EQ(ranks.run(body), "");
  ranks.copy_back();
  std::vector<std::byte> expected = first;
  std::ranges::copy(second, expected.begin() + 5);
  EXPECT_EQ(here, expected);
  EXPECT_EQ(there, expected);
  EXPECT_EQ(rest, first);
  EXPECT_TRUE(std::ranges::equal(std::span(memory[1].data() + length, length), first));
}

INSTANTIATE_TEST_SUITE_P(Of, WindowOnDevices, testing::Values(every_other_device, device_or_host),
                         [](const auto& one) {
                           return one.param == device_or_host ? "SomeRanks" : "EveryRank";
                         });

}  // namespace
}  // namespace tandem::test
