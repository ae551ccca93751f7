// The accelerator interface on a real GPU. Without one every test is skipped with a message.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <cstring>
#include <numeric>
#include <tandem/accelerator.hpp>

#include "support/coroutine_test.hpp"

namespace tandem::test {
namespace {

class gpu : public testing::TestWithParam<memory_kind> {
 protected:
  void SetUp() override {
    const accelerators all = find_accelerators(GetParam());
    if (all.found.empty()) GTEST_SKIP() << all.why_none;
    device_ = all.found.front();
    count_ = static_cast<int>(all.found.size());
  }
  accelerator& device() { return *device_; }
  accelerator* device_ = nullptr;
  int count_ = 0;
};

std::vector<std::uint8_t> numbers(std::size_t bytes, int from = 1) {
  std::vector<std::uint8_t> made(bytes);
  std::iota(made.begin(), made.end(), static_cast<std::uint8_t>(from));
  return made;
}

TEST_P(gpu, reports_its_facts) {
  const accelerator_facts& facts = device().facts();
  EXPECT_FALSE(facts.name.empty());
  EXPECT_EQ(facts.uuid.size(), 32U);
  EXPECT_GE(facts.pci.size(), 12U);
  EXPECT_GT(facts.memory_bytes, std::size_t{1} << 30);
  EXPECT_GT(facts.multiprocessors, 0);
  EXPECT_GT(facts.copy_engines, 0);
  EXPECT_FALSE(facts.architecture.empty());
}

TEST_P(gpu, copies_there_and_back_and_knows_its_memory) {
  const std::size_t bytes = (1 << 20) + 3;
  const buffer there(bytes, GetParam(), 0);
  pinned_buffer out(device(), bytes), back(device(), bytes);
  const std::vector<std::uint8_t> data = numbers(bytes);
  std::memcpy(out.data(), data.data(), bytes);
  std::memset(back.data(), 0, bytes);
  const device_stream on(device());
  device().copy(there.data(), out.data(), bytes, on.get());
  device().copy(back.data(), there.data(), bytes, on.get());
  device().finish(on.get());
  EXPECT_EQ(std::memcmp(back.data(), data.data(), bytes), 0);
  EXPECT_TRUE(device().owns(there.data() + 100));
  EXPECT_FALSE(device().owns(data.data()));
  EXPECT_FALSE(device().owns(out.data()));
  const accelerator::range whole = device().allocation_of(there.data() + 100);
  EXPECT_EQ(whole.base, there.data());
  EXPECT_GE(whole.bytes, bytes);
}

TEST_P(gpu, memory_of_a_buffer_is_zero) {
  const buffer there(100001, GetParam(), 0);
  std::vector<std::uint8_t> back = numbers(there.size());
  const device_stream on(device());
  device().copy(back.data(), there.data(), back.size(), on.get());
  device().finish(on.get());
  EXPECT_EQ(std::count(back.begin(), back.end(), 0), static_cast<std::ptrdiff_t>(back.size()));
}

awaitable<void> copy_often(accelerator& device) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  device_watch watch(executor, device);
  buffer there(std::size_t{8} << 20, device.kind(), device.device());
  pinned_buffer back(device, there.size());
  const device_stream on(device);
  int right = 0;
  for (int i = 0; i < 200; ++i) {
    device.fill(there.data(), static_cast<std::uint8_t>(i), there.size(), on.get());
    device.copy(back.data(), there.data(), there.size(), on.get());
    co_await watch.reached(on.get());
    const auto wanted = static_cast<std::byte>(i);
    if (back.data()[0] == wanted && back.data()[there.size() - 1] == wanted) ++right;
  }
  EXPECT_EQ(right, 200);
  EXPECT_EQ(watch.pending(), 0U);
}

TEST_P(gpu, stream_completion_wakes_spinning_and_blocked_loops) {
  for (const drive how : {drive::by_spinning, drive::by_asio}) run_test(copy_often(device()), how);
}

awaitable<void> hold_and_release(accelerator& device) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  device_watch watch(executor, device);
  int right = 0;
  const device_stream user(device), other(device);
  pinned_buffer word(device, 4096);
  for (int i = 0; i < 100; ++i) {
    std::memset(word.data(), 0, word.size());
    stream_hold hold = watch.hold(user.get());
    device.write_value(user.get(), device.device_pointer(word.data()), 7);
    device.write_value(other.get(), device.device_pointer(word.data() + 64), 7);
    co_await watch.reached(other.get());  // enough time for the user's stream if it were not held
    const bool held = word.data()[0] == std::byte{0} && word.data()[64] == std::byte{7};
    hold.release();
    co_await watch.reached(user.get());
    if (held && word.data()[0] == std::byte{7}) ++right;
  }
  EXPECT_EQ(right, 100);
}

TEST_P(gpu, stream_blocks_until_released) {
  if (!device().facts().has_stream_memory_ops) GTEST_SKIP() << "no stream memory operations";
  run_test(hold_and_release(device()), drive::by_spinning);
}

TEST_P(gpu, exports_memory_for_nics) {
  if (!device().facts().exports_dma_buf)
    GTEST_SKIP() << device().text() << " cannot export a dma-buf";
  const buffer there(std::size_t{4} << 20, GetParam(), 0);
  const accelerator::dma_buf made = device().export_dma_buf(there.data() + 4096, 8192);
  EXPECT_GE(made.descriptor, 0);
  ::close(made.descriptor);
}

TEST_P(gpu, accesses_memory_of_peer_device) {
  if (count_ < 2) GTEST_SKIP() << "one device only";
  if (!device().can_access_peer(1)) GTEST_SKIP() << "no peer access between the first two";
  device().enable_peer_access(1);
  accelerator& other = accelerator_at(GetParam(), 1);
  const std::vector<std::uint8_t> data = numbers(3 << 20, 5);
  const buffer far(data.size(), GetParam(), 1), near(data.size(), GetParam(), 0);
  const device_stream there(other), here(device());
  other.copy(far.data(), data.data(), data.size(), there.get());
  other.finish(there.get());
  device().copy(near.data(), far.data(), data.size(), here.get());
  std::vector<std::uint8_t> back(data.size());
  device().copy(back.data(), near.data(), back.size(), here.get());
  device().finish(here.get());
  EXPECT_EQ(back, data);
}

TEST_P(gpu, refuses_with_explanation) {
  try {
    device().allocate(std::size_t{1} << 50);
    FAIL();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::device_failed);
    const std::string text = e.what();
    EXPECT_NE(text.find(device().text()), std::string::npos) << text;
    EXPECT_NE(text.find("emory"), std::string::npos) << text;
  }
  EXPECT_THROW(device().open(accelerator::handle{}), error);
}

INSTANTIATE_TEST_SUITE_P(real, gpu, testing::Values(memory_kind::cuda, memory_kind::hip),
                         [](const auto& of) { return std::string(name(of.param)); });

}  // namespace
}  // namespace tandem::test
