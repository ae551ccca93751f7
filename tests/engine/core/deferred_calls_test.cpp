#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <tandem/detail/deferred_calls.hpp>
#include <thread>
#include <vector>

namespace tandem::detail {
namespace {

using namespace std::chrono_literals;

deferred_calls& calls() {
  return deferred_calls::of_process();
}

/// An operation on a stream.
class operation {
 public:
  operation() { calls().count_streams(+1); }
  ~operation() { calls().count_streams(-1); }
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
};

void expect_all_made() {
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (calls().has_pending() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_FALSE(calls().has_pending());
}

TEST(deferred_calls, are_made_at_once_without_operations) {
  { const operation over; }
  for (int i = 0; i < 3; ++i) {
    const auto is_made = std::make_shared<std::atomic<bool>>(false);
    calls().make([is_made] { *is_made = true; });
    EXPECT_TRUE(*is_made);
  }
  EXPECT_FALSE(calls().has_pending());
}

TEST(deferred_calls, are_made_in_order_when_the_last_operation_is_over) {
  struct record {
    std::mutex mutex;
    std::vector<int> made;
    std::size_t size() {
      const std::lock_guard lock(mutex);
      return made.size();
    }
  };
  const auto seen = std::make_shared<record>();
  {
    auto first = std::make_unique<operation>();
    const operation last;
    for (int i = 0; i < 5; ++i) {
      calls().make([seen, i] {
        const std::lock_guard lock(seen->mutex);
        seen->made.push_back(i);
      });
    }
    first.reset();
    std::this_thread::sleep_for(30ms);
    EXPECT_EQ(seen->size(), 0U);
    EXPECT_TRUE(calls().has_pending());
  }
  expect_all_made();
  EXPECT_EQ(seen->made, (std::vector<int>{0, 1, 2, 3, 4}));
}

/// A driver makes copies wait for such a call.
TEST(deferred_calls, operations_begin_behind_a_call) {
  { const operation over; }
  const auto end = std::make_shared<std::promise<void>>();
  const auto is_made = std::make_shared<std::atomic<bool>>(false);
  const auto begun = std::chrono::steady_clock::now();
  calls().make([is_made, until = end->get_future().share()] {
    until.wait();
    *is_made = true;
  });
  EXPECT_FALSE(*is_made) << "its caller does not wait for ever";
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
  std::atomic<bool> has_begun{false};
  std::thread user([&] {
    const operation mine;
    EXPECT_TRUE(*is_made);
    has_begun = true;
  });
  std::this_thread::sleep_for(30ms);
  EXPECT_FALSE(has_begun);
  const auto other = std::make_shared<std::atomic<bool>>(false);
  calls().make([other] { *other = true; });
  EXPECT_FALSE(*other);
  end->set_value();
  user.join();
  expect_all_made();
  EXPECT_TRUE(*other);
}

TEST(deferred_calls, from_several_threads) {
  const auto made = std::make_shared<std::atomic<int>>(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([made] {
      for (int i = 0; i < 50; ++i) {
        const operation mine;
        calls().make([made] { ++*made; });
      }
    });
  }
  for (std::thread& each : threads) each.join();
  expect_all_made();
  EXPECT_EQ(*made, 200);
}

}  // namespace
}  // namespace tandem::detail
