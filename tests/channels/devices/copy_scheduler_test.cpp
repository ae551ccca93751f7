// The copy scheduler without a channel: when it calls the driver, with which copies, and which
// completions it reports.
#include "devices/copy_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "doubles/cuda/double.hpp"
#include "support/pattern.hpp"

namespace tandem::test {
namespace {

using namespace std::chrono_literals;

constexpr devices::copy_scheduler::limits of_calls{.calls = 3,
                                                   .call_bytes = 1000,
                                                   .contended_bytes = 400,
                                                   .other_window = 20ms,
                                                   .reader_window = 20ms};

/// Completion state of one copy.
struct copy_record {
  device_wait wait;
  int completions = 0, destroyed = 0;
  std::shared_ptr<const error> failure;
  std::function<void()> on_destroy = [] {};  ///< called when the wait is destroyed

  copy_record() {
    wait.owner = this;
    wait.done = [](device_wait& of, const std::shared_ptr<const error>& why) {
      auto& self = *static_cast<copy_record*>(of.owner);
      ++self.completions;
      self.failure = why;
    };
    wait.destroy = [](device_wait& of) noexcept {
      auto& self = *static_cast<copy_record*>(of.owner);
      ++self.destroyed;
      self.on_destroy();
    };
  }
};

class copy_scheduler_test : public testing::Test {
 protected:
  copy_scheduler_test() {
    gpus_.manual(true);
    EXPECT_TRUE(device_.can_access_peer(1));
    device_.enable_peer_access(1);
    scheduler_->share_with(*other_scheduler_);
    other_scheduler_->share_with(*scheduler_);
  }

  ~copy_scheduler_test() override { destroy(); }

  /// @param gap  bytes between this copy and the previous one, at both ends
  copy_record& copy(std::size_t bytes, std::size_t gap = 64) {
    all_.push_back(std::make_unique<copy_record>());
    at_ += gap;
    scheduler_->copy(to_.data() + at_, from_.data() + at_, bytes, all_.back()->wait);
    at_ += bytes;
    return *all_.back();
  }
  /// A copy of the other scheduler.
  copy_record& copy_by_other(std::size_t bytes) {
    all_.push_back(std::make_unique<copy_record>());
    other_scheduler_->copy(to_.data() + 90'000, from_.data() + 90'000, bytes, all_.back()->wait);
    return *all_.back();
  }
  std::size_t singles() const { return gpus_.calls("cuMemcpyAsync"); }
  std::size_t batches() const { return gpus_.calls("cuMemcpyBatchAsync"); }
  /// Runs until nothing is pending.
  void run() {
    do {
      context_->restart();
      context_->poll();
    } while (gpus_.run_all() > 0);
  }
  int completions() const {
    int count = 0;
    for (const auto& each : all_) count += each->completions;
    return count;
  }
  /// Advances the test's clock.
  static void pass(std::chrono::milliseconds time) { now_ += time; }
  /// Destroys the io_context and everything on it.
  void destroy() {
    watch_.reset();
    scheduler_.reset();
    other_scheduler_.reset();
    context_.reset();
  }

  static cuda_double::options greedy_options() {
    cuda_double::options as;
    as.greedy_engines = true;
    return as;
  }

  using scheduler = devices::copy_scheduler;
  static inline scheduler::time_point now_{1h};
  std::shared_ptr<scheduler> make_scheduler() {
    return std::make_shared<scheduler>(*watch_, context_->get_executor(), of_calls,
                                       [] { return now_; });
  }

  cuda_double gpus_{greedy_options()};
  accelerator& device_ = accelerator_at(memory_kind::cuda, 0);
  const buffer to_{100'000, memory_kind::cuda, 1}, from_{100'000, memory_kind::cuda, 0};
  std::vector<std::unique_ptr<copy_record>> all_;
  std::size_t at_ = 0;
  std::optional<asio::io_context> context_{std::in_place};
  std::optional<device_watch> watch_{std::in_place, context_->get_executor(), device_};
  std::shared_ptr<scheduler> scheduler_ = make_scheduler(), other_scheduler_ = make_scheduler();
};

TEST_F(copy_scheduler_test, first_is_submitted_at_once_others_after_poll) {
  copy(100);
  EXPECT_EQ(singles(), 1U);
  copy(200);
  copy(300);
  EXPECT_EQ(singles() + batches(), 1U);
  context_->poll();
  EXPECT_EQ(batches(), 1U);
  EXPECT_EQ(completions(), 0);
  run();
  EXPECT_EQ(completions(), 3);
  EXPECT_EQ(singles() + batches(), 2U);
  for (const auto& each : all_) EXPECT_FALSE(each->failure);
}

TEST_F(copy_scheduler_test, full_batch_is_submitted_at_once) {
  copy(100);
  copy(400);
  copy(400);
  EXPECT_EQ(batches(), 0U);
  copy(300);
  EXPECT_EQ(batches(), 1U) << "of the first two: more would be too long";
  EXPECT_EQ(singles(), 1U);
  context_->poll();
  EXPECT_EQ(singles(), 2U);
  run();
  EXPECT_EQ(completions(), 4);
}

TEST_F(copy_scheduler_test, long_copy_is_a_call_of_its_own) {
  copy(5000);
  copy(5000);
  copy(5000);
  EXPECT_EQ(singles(), 3U) << "one is running, one is queued, and one more";
  copy(5000);
  context_->poll();
  EXPECT_EQ(singles(), 3U);
  run();
  EXPECT_EQ(completions(), 4);
  EXPECT_EQ(singles(), 4U);
}

TEST_F(copy_scheduler_test, adjacent_copies_are_merged) {
  copy(100);
  copy(300, 0);
  copy(300, 0);
  copy(300, 0);
  context_->poll();
  EXPECT_EQ(batches(), 0U);
  EXPECT_EQ(singles(), 2U);
  run();
  EXPECT_EQ(completions(), 4);
}

TEST_F(copy_scheduler_test, contending_channels_submit_one_call_at_a_time) {
  copy_by_other(100);
  copy(100);
  copy(100);
  copy(100);
  context_->poll();
  EXPECT_EQ(singles(), 2U) << "one of each";
  EXPECT_EQ(batches(), 0U);
  run();
  EXPECT_EQ(batches(), 1U);
  EXPECT_EQ(completions(), 4);
}

TEST_F(copy_scheduler_test, copies_do_not_wait_for_later_ones) {
  const auto keep_copies_waiting = [this] {
    for (; scheduler_->pending_bytes() < 20'000; at_ = 0) copy(3000);
  };
  const auto run_a_step = [&] {
    gpus_.step();
    context_->restart();
    context_->poll();
    keep_copies_waiting();
  };
  keep_copies_waiting();
  for (int i = 0; i < 20; ++i) run_a_step();
  const std::size_t before = gpus_.seen().copied_bytes;
  copy_record& other = copy_by_other(100);
  for (int i = 0; i < 200 && other.completions == 0; ++i) run_a_step();
  EXPECT_EQ(other.completions, 1);
  EXPECT_LE(gpus_.seen().copied_bytes - before, 3 * 3000U + 100)
      << "only the copies in flight then";
  const std::size_t then = gpus_.seen().copied_bytes;
  for (int i = 0; i < 20; ++i) run_a_step();
  EXPECT_GT(gpus_.seen().copied_bytes, then) << "the others go on";
}

TEST_F(copy_scheduler_test, long_copy_is_split_under_contention) {
  const std::vector<std::byte> text = pattern(5000, 3);
  std::ranges::copy(text, gpus_.host(from_.data() + 64, text.size()));
  copy_by_other(100);
  copy_record& long_copy = copy(5000);
  for (std::size_t pieces = 1; pieces <= 13; ++pieces) {
    EXPECT_EQ(singles(), 1 + pieces);
    EXPECT_EQ(scheduler_->pending_bytes(), 5000 - 400 * (pieces - 1));
    EXPECT_EQ(long_copy.completions, 0);
    gpus_.run_all();
    context_->restart();
    context_->poll();
  }
  EXPECT_EQ(long_copy.completions, 1);
  EXPECT_FALSE(long_copy.failure);
  EXPECT_EQ(scheduler_->pending_bytes(), 0U);
  EXPECT_EQ(singles(), 14U) << "12 of 400 and one of 200, although the other copy completed early";
  EXPECT_TRUE(std::ranges::equal(text, std::span(gpus_.host(to_.data() + 64, 5000), 5000)));
  EXPECT_EQ(*gpus_.host(to_.data() + 5064), std::byte{0});
}

TEST_F(copy_scheduler_test, contention_is_assumed_for_a_while) {
  copy_by_other(100);
  run();
  copy(5000);
  EXPECT_EQ(scheduler_->pending_bytes(), 5000U);
  pass(25ms);
  gpus_.run_all();
  context_->restart();
  context_->poll();
  EXPECT_EQ(singles(), 3U) << "the rest as a whole";
  run();
  EXPECT_EQ(completions(), 2);
}

TEST_F(copy_scheduler_test, long_copy_is_split_for_readers) {
  scheduler_->expect_reader(true);
  pass(25ms);
  copy(700);
  EXPECT_EQ(scheduler_->pending_bytes(), 700U);
  run();
  EXPECT_EQ(singles(), 2U);
  scheduler_->expect_reader(false);
  copy(700);
  run();
  EXPECT_EQ(singles(), 4U) << "another is expected";
  pass(25ms);
  copy(700);
  run();
  EXPECT_EQ(singles(), 5U);
  scheduler_->note_reader();
  copy(700);
  run();
  EXPECT_EQ(singles(), 7U);
  EXPECT_EQ(completions(), 4);
}

TEST_F(copy_scheduler_test, split_copy_fails_once_no_part_is_in_flight) {
  for (const int part : {1, 2}) {
    copy_by_other(100);
    run();
    gpus_.fail("cuMemcpyAsync", part, 1);
    copy_record& long_copy = copy(1500);
    copy_record& next = copy(100);
    EXPECT_EQ(long_copy.completions, 0);
    run();
    EXPECT_EQ(long_copy.completions, 1);
    ASSERT_TRUE(long_copy.failure);
    EXPECT_EQ(long_copy.failure->code(), errc::device_failed);
    EXPECT_EQ(next.completions, 1);
    EXPECT_FALSE(next.failure);
    EXPECT_EQ(scheduler_->pending_bytes(), 0U);
  }
}

TEST_F(copy_scheduler_test, split_copy_is_destroyed_once_with_the_loop) {
  copy_by_other(100);
  copy(1500);
  copy(300);
  destroy();
  for (const auto& each : all_) {
    EXPECT_EQ(each->completions + each->destroyed, 1);
  }
  gpus_.run_all();
}

TEST_F(copy_scheduler_test, refusal_is_reported_later_and_others_continue) {
  copy(100);
  gpus_.fail("cuMemcpyBatchAsync", 1, 1);
  gpus_.fail("cuMemcpyAsync", 2, 1);
  copy_record& first = copy(500);
  copy_record& second = copy(500);
  EXPECT_EQ(completions(), 0) << "not from inside copy()";
  context_->poll();
  EXPECT_EQ(first.completions + second.completions, 1);
  copy_record& refused = first.completions > 0 ? first : second;
  ASSERT_TRUE(refused.failure);
  EXPECT_EQ(refused.failure->code(), errc::device_failed);
  run();
  EXPECT_EQ(completions(), 3);
  copy(100);
  run();
  EXPECT_EQ(completions(), 4);
}

TEST_F(copy_scheduler_test, pending_copies_are_destroyed_with_the_loop) {
  copy(100);
  copy(600);
  copy(600);
  copy(100);
  gpus_.fail("cuMemcpyBatchAsync", 1, 1);
  gpus_.fail("cuMemcpyAsync", 1, 1);
  copy(900);
  destroy();
  for (const auto& each : all_) {
    EXPECT_EQ(each->completions + each->destroyed, 1);
  }
  EXPECT_EQ(completions(), 0);
  gpus_.run_all();
}

TEST_F(copy_scheduler_test, refused_copy_is_destroyed_with_the_loop) {
  copy_by_other(100);
  run();
  gpus_.fail("cuMemcpyAsync", 1, 1);
  copy_record& refused = copy(1500);
  refused.on_destroy = [this] {
    watch_.reset();
    scheduler_.reset();
    other_scheduler_.reset();
  };
  EXPECT_EQ(scheduler_->pending_bytes(), 0U);
  context_.reset();
  EXPECT_EQ(refused.completions, 0);
  EXPECT_EQ(refused.destroyed, 1);
}

}  // namespace
}  // namespace tandem::test
