// A mutex that waits by polling: what it protects, who waits for how long.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <tandem/detail/polled_mutex.hpp>
#include <thread>
#include <vector>

namespace tandem {
namespace {

using namespace std::chrono_literals;
using detail::polled_mutex;

TEST(threads, polled_mutex_excludes_others) {
  constexpr int threads = 4, each = 20'000;
  polled_mutex mutex;
  int count = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      for (int k = 0; k < each; ++k) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(count, threads * each);
}

TEST(threads, polled_mutex_is_waited_for_as_long_as_it_is_held) {
  polled_mutex mutex;
  int value = 0;
  mutex.lock();
  std::thread waiting([&] {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(value, 1);
  });
  std::this_thread::sleep_for(20ms);  // so that it no longer yields only
  value = 1;
  mutex.unlock();
  waiting.join();
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
}

TEST(threads, polled_mutex_is_given_up_in_time) {
  polled_mutex mutex;
  const std::unique_lock held(mutex);
  std::thread waiting([&] {
    const auto start = std::chrono::steady_clock::now();
    const std::unique_lock late(mutex, 30ms);
    EXPECT_FALSE(late.owns_lock());
    EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
  });
  waiting.join();
  std::thread other([&] { EXPECT_FALSE(mutex.try_lock_for(0ms)); });
  other.join();
}

}  // namespace
}  // namespace tandem
