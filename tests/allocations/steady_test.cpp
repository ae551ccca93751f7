// Messages in steady state allocate no memory, on any kind of channel. This program replaces the
// global operator new by one that counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <tandem/collectives.hpp>
#include <vector>

#include "collectives/job.hpp"
#include "support/sanitized.hpp"

namespace {

std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t length =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, length)
                                                             : std::malloc(length);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tandem::test {
namespace {

/// Two channels that answer each other, without coroutines.
class ping_pong {
 public:
  ping_pong(asio::io_context& context, channel& here, channel& there, std::size_t bytes)
      : context_(context), ends_{&here, &there}, out_(bytes), in_(bytes) {
    for (operation* const each : {&send_, &recv_}) {
      each->owner = this;
      each->flow = 9;
      each->complete = [](operation& op) { static_cast<ping_pong*>(op.owner)->done(op); };
    }
    send_.what = operation::kind::send;
    recv_.what = operation::kind::recv;
  }

  /// How many allocations so many round trips need.
  std::uint64_t run(int round_trips) {
    left_ = 2 * round_trips;
    const std::uint64_t before = allocations;
    asio::post(context_, [this] { next(); });
    context_.restart();
    context_.run();
    EXPECT_EQ(left_, 0);
    return allocations - before;
  }

 private:
  void next() {
    while (left_ > 0) {
      --left_;
      std::swap(ends_[0], ends_[1]);
      send_.view = mutable_view(out_);
      recv_.view = mutable_view(in_);
      pending_ = 2;
      if (ends_[1]->start(recv_)) finished(recv_);
      if (ends_[0]->start(send_)) finished(send_);
      if (pending_ > 0) return;
    }
    context_.stop();
  }
  void finished(operation& op) {
    EXPECT_FALSE(op.result) << op.result.message();
    --pending_;
  }
  void done(operation& op) {
    finished(op);
    if (pending_ == 0) next();
  }

  asio::io_context& context_;
  channel* ends_[2];
  std::vector<std::byte> out_, in_;
  operation send_, recv_;
  int left_ = 0;
  int pending_ = 0;
};

class Allocations : public testing::TestWithParam<fabric_kind> {};

TEST_P(Allocations, NoneInSteadyState) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer has an operator new of its own";
  job ranks(GetParam(), 2, settings{});
  ASSERT_EQ(ranks.run([&](int r) { return barrier(ranks.world(r)); }), "");
  channel* const here = ranks.fabrics[0]->find(1);
  channel* const there = ranks.fabrics[1]->find(0);
  ASSERT_NE(here, nullptr);
  ASSERT_NE(there, nullptr);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 20}) {
    const int round_trips = bytes < 100'000 ? 500 : 60;
    ping_pong play(ranks.context, *here, *there, bytes);
    play.run(round_trips);
    // The first of a run enters the loop, and timers may end meanwhile.
    const std::uint64_t once = play.run(1);
    const std::uint64_t many = play.run(round_trips);
    EXPECT_LE(many, once + 8) << bytes << " bytes: " << many << " allocations in " << round_trips
                              << " round trips, " << once << " in one";
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Allocations, testing::ValuesIn(fabric_kinds()), name_of_kind);

}  // namespace
}  // namespace tandem::test
