#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <tandem/accelerator.hpp>

#include "brute_force/stepping.hpp"
#include "doubles/cuda/double.hpp"
#include "support/coroutine_test.hpp"

namespace tandem::test {
namespace {

constexpr drive both_loops[] = {drive::by_asio, drive::by_spinning};

cuda_double::options manual() {
  cuda_double::options as;
  as.manual = true;
  return as;
}

accelerator& first_device() {
  return accelerator_at(memory_kind::cuda, 0);
}

/// A word of pinned memory that a stream waits on until it is set.
class gate {
 public:
  explicit gate(accelerator& of) : word_(of, sizeof(std::uint32_t)) {
    std::memset(word_.data(), 0, word_.size());
  }
  void hold(accelerator::stream which, std::uint32_t until_value = 1) {
    device_of_word().await_value(which, word_.data(), until_value);
  }
  void open(std::uint32_t value = 1) {
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word_.data()))
        .store(value, std::memory_order_release);
  }

 private:
  static accelerator& device_of_word() { return first_device(); }
  pinned_buffer word_;
};

char byte_at(cuda_double& gpus, const buffer& of) {
  return static_cast<char>(*gpus.host(of.data()));
}

awaitable<void> waits_for_the_device(cuda_double& gpus) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  EXPECT_EQ(&watch.of(), &of);
  EXPECT_TRUE(watch.get_executor() == executor);
  const device_stream on(of);
  const buffer memory(1, memory_kind::cuda, 0);
  of.fill(memory.data(), 'x', 1, on.get());
  background waiting(executor, watch.reached(on.get()));
  co_await turns(20);
  EXPECT_FALSE(waiting.is_over());
  EXPECT_EQ(watch.pending(), 1u);
  EXPECT_EQ(byte_at(gpus, memory), 0) << "used before it is ready";
  gpus.manual(false);
  co_await waiting.result();
  EXPECT_EQ(byte_at(gpus, memory), 'x');
  EXPECT_EQ(watch.pending(), 0u);
  EXPECT_EQ(gpus.calls("cuLaunchKernel"), 0u);
}

TEST(device_watch, completes_when_the_device_is_done) {
  for (const drive how : both_loops) {
    cuda_double gpus(manual());
    run_test(waits_for_the_device(gpus), how);
  }
}

awaitable<void> reuses_memory(cuda_double& gpus, bool waits) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  const device_stream on(of);
  const buffer memory(1, memory_kind::cuda, 0);
  const pinned_buffer chunk(of, 1);
  *chunk.data() = std::byte{'a'};
  gpus.manual(true);
  of.copy(memory.data(), chunk.data(), 1, on.get());
  background waiting(executor, watch.reached(on.get()));
  if (waits) {
    gpus.manual(false);
    co_await waiting.result();
  }
  *chunk.data() = std::byte{'b'};
  gpus.manual(false);
  co_await waiting.result();
  EXPECT_EQ(byte_at(gpus, memory), waits ? 'a' : 'b');
}

TEST(device_watch, memory_may_be_reused_after_completion) {
  for (const bool waits : {true, false}) {
    cuda_double gpus;
    run_test(reuses_memory(gpus, waits));
  }
}

/// The loop has nothing else to do and blocks.
awaitable<void> blocks_repeatedly(cuda_double& gpus) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  const device_stream on(of);
  const buffer memory(1, memory_kind::cuda, 0);
  for (int round = 1; round <= 50; ++round) {
    of.fill(memory.data(), static_cast<std::uint8_t>(round), 1, on.get());
    co_await watch.reached(on.get());
    EXPECT_EQ(byte_at(gpus, memory), static_cast<char>(round));
  }
  EXPECT_LE(gpus.calls("cuEventCreate"), 1u) << "taken from the pool";
}

TEST(device_watch, wakes_blocked_loop) {
  for (const drive how : both_loops) {
    cuda_double::options as;
    as.max_delay = std::chrono::microseconds(2000);
    cuda_double gpus(as);
    run_test(blocks_repeatedly(gpus), how);
  }
}

awaitable<void> in_any_order(cuda_double&) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  std::vector<device_stream> streams;
  gate stream_gate(of);
  for (std::uint32_t i = 0; i < 8; ++i) {
    streams.emplace_back(of);
    stream_gate.hold(streams.back().get(), 8 - i);
  }
  std::vector<background> waiting;
  for (const device_stream& each : streams)
    waiting.emplace_back(executor, watch.reached(each.get()));
  EXPECT_EQ(watch.pending(), 8u);
  for (std::uint32_t open = 1; open <= 8; ++open) {
    stream_gate.open(open);
    co_await waiting[8 - open].result();
    EXPECT_EQ(watch.pending(), 8 - open);
  }
}

TEST(device_watch, many_streams_in_any_order) {
  for (const drive how : both_loops) {
    cuda_double gpus;
    run_test(in_any_order(gpus), how);
  }
}

awaitable<void> several_on_one_stream(cuda_double&) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  const device_stream on(of);
  gate stream_gate(of);
  std::vector<background> waiting;
  for (std::uint32_t i = 1; i <= 4; ++i) {
    stream_gate.hold(on.get(), i);
    waiting.emplace_back(executor, watch.reached(on.get()));
  }
  for (std::uint32_t i = 1; i <= 4; ++i) {
    stream_gate.open(i);
    co_await waiting[i - 1].result();
    if (i < 4) {
      EXPECT_FALSE(waiting[i].is_over());
    }
  }
}

TEST(device_watch, waits_on_one_stream_complete_in_order) {
  for (const drive how : both_loops) {
    cuda_double gpus;
    run_test(several_on_one_stream(gpus), how);
  }
}

/// The device fails while the loop is blocked: no doorbell rings then.
awaitable<void> device_fails(cuda_double& gpus) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  gate stream_gate(of);
  const device_stream one(of), two(of), poison(of);
  std::vector<background> waiting;
  for (const device_stream* const each : {&one, &two}) {
    stream_gate.hold(each->get());
    waiting.emplace_back(executor, watch.reached(each->get()));
    waiting.emplace_back(executor, watch.reached(each->get()));
  }
  co_await turns(20);
  gpus.break_device(0);
  of.call(
      poison.get(), [](void*) {}, nullptr);
  for (background& each : waiting) {
    const auto failure = co_await each.failure();
    expect_error(failure, errc::device_failed, {"cuda:0", "CUDA_ERROR_LAUNCH_FAILED"});
  }
  EXPECT_EQ(watch.pending(), 0u);
  const auto later = co_await failure_of(watch.reached(one.get()));
  expect_error(later, errc::device_failed);
}

TEST(device_watch, device_failure_reaches_all_waiters) {
  for (const drive how : both_loops) {
    cuda_double gpus;
    run_test(device_fails(gpus), how);
  }
}

awaitable<void> refuses(cuda_double& gpus) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  const device_stream on(of);
  for (const char* each : {"cuStreamIsCapturing", "cuEventCreate", "cuEventRecord"}) {
    gpus.fail(each, 1, cu::out_of_memory);
    const auto failure = co_await failure_of(watch.reached(on.get()));
    expect_error(failure, errc::device_failed, {each});
    EXPECT_EQ(watch.pending(), 0u);
  }
  gpus.capture(static_cast<cu::stream>(on.get()), true);
  const auto captured = co_await failure_of(watch.reached(on.get()));
  expect_error(captured, errc::bad_input, {"graph"});
  gpus.capture(static_cast<cu::stream>(on.get()), false);
  co_await watch.reached(on.get());
}

TEST(device_watch, unwatchable_streams_are_refused) {
  cuda_double gpus;
  run_test(refuses(gpus));
}

/// Without an alarm, the device is polled.
awaitable<void> without_alarm(cuda_double& gpus) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = first_device();
  device_watch watch(executor, of);
  const device_stream on(of);
  for (const char* each : {"cuStreamCreateWithPriority", "cuStreamWaitEvent", "cuLaunchHostFunc"}) {
    gpus.fail(each, 1, cu::out_of_memory);
    co_await watch.reached(on.get());
  }
}

TEST(device_watch, works_without_alarm) {
  cuda_double gpus;
  run_test(without_alarm(gpus));
}

struct counting : device_wait {
  counting() {
    done = [](device_wait& wait, const std::shared_ptr<const error>&) {
      ++static_cast<counting&>(wait).completed;
    };
    destroy = [](device_wait& wait) noexcept { ++static_cast<counting&>(wait).destroyed; };
  }
  int completed = 0;
  int destroyed = 0;
};

TEST(device_watch, destroyed_with_pending_waits) {
  cuda_double gpus;
  accelerator& of = first_device();
  asio::io_context context{1};
  counting waits[3];
  gate stream_gate(of);
  const device_stream one(of), two(of);
  {
    device_watch watch(context.get_executor(), of);
    stream_gate.hold(one.get());
    watch.after(one.get(), waits[0]);
    watch.after(one.get(), waits[1]);
    watch.after(two.get(), waits[2]);
    EXPECT_EQ(waits[2].completed, 0) << "from inside the call";
    context.poll();
  }
  for (const counting& each : waits) EXPECT_EQ(each.completed + each.destroyed, 1);
  EXPECT_EQ(waits[0].destroyed, 1);
  stream_gate.open();
  of.finish(one.get());
  context.poll();
  for (const counting& each : waits) EXPECT_EQ(each.completed + each.destroyed, 1);
}

struct destroys_the_watch : device_wait {
  explicit destroys_the_watch(std::unique_ptr<device_watch>& of) : watch(of) {
    done = [](device_wait& wait, const std::shared_ptr<const error>&) {
      static_cast<destroys_the_watch&>(wait).watch.reset();
    };
  }
  std::unique_ptr<device_watch>& watch;
};

TEST(device_watch, destroyed_by_its_handler) {
  cuda_double gpus;
  accelerator& of = first_device();
  asio::io_context context{1};
  const device_stream on(of), other(of);
  gate stream_gate(of);
  auto watch = std::make_unique<device_watch>(context.get_executor(), of);
  destroys_the_watch first(watch);
  counting same, later;
  stream_gate.hold(other.get());
  watch->after(on.get(), first);
  watch->after(on.get(), same);
  watch->after(other.get(), later);
  context.run();
  EXPECT_EQ(watch, nullptr);
  EXPECT_EQ(same.completed + same.destroyed, 1);
  EXPECT_EQ(later.destroyed, 1);
  stream_gate.open();
  of.finish(other.get());
}

/// Objects that must outlive the work of the device.
struct watched_stage {
  cuda_double gpus;
  accelerator& of = first_device();
  device_stream one{of}, two{of};
  buffer memory{2, memory_kind::cuda, 0};

  ~watched_stage() {
    of.finish(one.get());
    of.finish(two.get());
  }
};

awaitable<void> pipeline(watched_stage& on) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  device_watch watch(executor, on.of);
  for (int round = 0; round < 3; ++round) {
    on.of.fill(on.memory.data(), 1, 1, on.one.get());
    background first(executor, watch.reached(on.one.get()));
    on.of.fill(on.memory.data() + 1, 2, 1, on.two.get());
    co_await watch.reached(on.two.get());
    co_await first.result();
  }
}

TEST(brute_force_device_watch, stopped_by_destroying_the_loop) {
  for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
    watched_stage on;
    stepping loop;
    loop.start(pipeline(on));
    loop.step(steps);
    if (!loop.is_over()) continue;
    EXPECT_FALSE(loop.failure());
    break;
  }
}

/// Waits for a device cannot be cancelled: all of them succeed.
TEST(brute_force_device_watch, cancelled) {
  for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
    watched_stage on;
    stepping loop;
    loop.start(pipeline(on));
    loop.step(steps);
    const bool was_over = loop.is_over();
    loop.cancel();
    EXPECT_TRUE(loop.finish());
    if (was_over) break;
  }
}

}  // namespace
}  // namespace tandem::test
