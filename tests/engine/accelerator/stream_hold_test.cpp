#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <optional>
#include <tandem/accelerator.hpp>
#include <thread>

#include "doubles/cuda/double.hpp"
#include "support/coroutine_test.hpp"

namespace tandem::test {
namespace {

/// A device whose work is executed manually, and a byte of its memory.
struct stage {
  explicit stage(cuda_double::options as = by_hand())
      : gpus(as),
        of(accelerator_at(memory_kind::cuda, 0)),
        on(of),
        memory(1, memory_kind::cuda, 0),
        watch(std::in_place, context.get_executor(), of) {}
  // The stream reads the released words before they are freed.
  ~stage() { gpus.run_all(); }
  static cuda_double::options by_hand() {
    cuda_double::options as;
    as.manual = true;
    return as;
  }
  void fill(char with) { of.fill(memory.data(), static_cast<std::uint8_t>(with), 1, on.get()); }
  /// Runs all executable work first.
  char found() {
    gpus.run_all();
    return static_cast<char>(*gpus.host(memory.data()));
  }

  cuda_double gpus;
  asio::io_context context{1};
  accelerator& of;
  device_stream on;
  buffer memory;
  std::optional<device_watch> watch;
};

TEST(stream_hold, later_work_waits_for_release) {
  stage on;
  on.fill('a');
  stream_hold hold = on.watch->hold(on.on.get());
  on.fill('b');
  EXPECT_EQ(on.found(), 'a');
  hold.release();
  EXPECT_EQ(on.found(), 'b');
  hold.release();
  EXPECT_EQ(on.gpus.calls("cuLaunchKernel"), 0u);
}

TEST(stream_hold, released_when_it_is_destroyed_or_replaced) {
  stage on;
  {
    const stream_hold hold = on.watch->hold(on.on.get());
    on.fill('a');
    EXPECT_EQ(on.found(), 0);
  }
  EXPECT_EQ(on.found(), 'a');
  stream_hold hold = on.watch->hold(on.on.get());
  on.fill('b');
  stream_hold other = on.watch->hold(on.on.get());
  on.fill('c');
  EXPECT_EQ(on.found(), 'a');
  hold = std::move(other);
  EXPECT_EQ(on.found(), 'b');
  hold = stream_hold();
  EXPECT_EQ(on.found(), 'c');
}

TEST(stream_hold, moves) {
  stage on;
  stream_hold hold = on.watch->hold(on.on.get());
  on.fill('a');
  stream_hold other(std::move(hold));
  hold.release();
  EXPECT_EQ(on.found(), 0);
  other.release();
  EXPECT_EQ(on.found(), 'a');
}

TEST(stream_hold, several_concurrently) {
  stage on;
  const device_stream second(on.of);
  stream_hold one = on.watch->hold(on.on.get());
  stream_hold two = on.watch->hold(second.get());
  on.fill('a');
  two.release();
  EXPECT_EQ(on.found(), 0);
  one.release();
  EXPECT_EQ(on.found(), 'a');
}

/// The word of a released hold is reused before the stream has read it.
TEST(stream_hold, released_before_the_stream_gets_there) {
  stage on;
  stream_hold hold = on.watch->hold(on.on.get());
  hold.release();
  on.fill('a');
  hold = on.watch->hold(on.on.get());
  on.fill('b');
  EXPECT_EQ(on.found(), 'a');
  hold.release();
  EXPECT_EQ(on.found(), 'b');
}

TEST(stream_hold, outlives_the_watch) {
  stage on;
  stream_hold hold = on.watch->hold(on.on.get());
  on.fill('a');
  on.watch.reset();
  EXPECT_EQ(on.found(), 0);
  hold.release();
  EXPECT_EQ(on.gpus.open().pinned, 1u) << "the stream has not read it yet";
  EXPECT_EQ(on.found(), 'a');
  // The next hold gets the error.
  on.watch.emplace(on.context.get_executor(), on.of);
  hold = on.watch->hold(on.on.get());
  EXPECT_EQ(on.gpus.open().pinned, 1u);
  on.watch.reset();
  hold.release();
  on.gpus.run_all();
  on.watch.emplace(on.context.get_executor(), on.of);
  on.watch->hold(on.on.get()).release();
  on.gpus.run_all();
  on.watch.reset();
  EXPECT_EQ(on.gpus.open().pinned, 0u);
}

TEST(stream_hold, more_than_one_page_of_holds) {
  cuda_double::options as;
  stage on(as);
  std::vector<stream_hold> holds;
  for (int i = 0; i < 1500; ++i) holds.push_back(on.watch->hold(on.on.get()));
  EXPECT_EQ(on.gpus.open().pinned, 3u);
  on.fill('a');
  for (stream_hold& each : holds) each.release();
  on.of.finish(on.on.get());
  EXPECT_EQ(on.found(), 'a');
  EXPECT_EQ(on.gpus.calls("cuMemHostAlloc"), 3u);
}

TEST(stream_hold, released_by_another_thread_while_the_loop_waits) {
  cuda_double gpus;
  asio::io_context context{1};
  accelerator& of = accelerator_at(memory_kind::cuda, 0);
  const device_stream on(of);
  device_watch watch(context.get_executor(), of);
  for (int round = 0; round < 20; ++round) {
    stream_hold hold = watch.hold(on.get());
    std::thread other([&hold] { hold.release(); });
    of.finish(on.get());
    other.join();
  }
}

TEST(stream_hold, refused_without_stream_memory_ops) {
  cuda_double::options as;
  as.stream_values = false;
  stage on(as);
  try {
    const stream_hold hold = on.watch->hold(on.on.get());
    ADD_FAILURE() << "held";
  } catch (const error& failed) {
    expect_error(failed, errc::unsupported_memory, {"cuda:0 (Double H200)", "wait"});
  }
}

TEST(stream_hold, failure_holds_nothing) {
  stage on;
  for (const char* each : {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuStreamWaitValue32"}) {
    on.gpus.fail(each, 1, cu::out_of_memory);
    try {
      const stream_hold hold = on.watch->hold(on.on.get());
      ADD_FAILURE() << "held";
    } catch (const error& failed) {
      expect_error(failed, errc::device_failed, {each});
    }
  }
  on.fill('a');
  EXPECT_EQ(on.found(), 'a');
  stream_hold hold = on.watch->hold(on.on.get());
  on.fill('b');
  EXPECT_EQ(on.found(), 'a');
}

}  // namespace
}  // namespace tandem::test
