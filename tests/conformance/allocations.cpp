// Messages in steady state allocate no memory.
#include "doubles/allocations.hpp"

#include <tandem/async.hpp>
#include <utility>
#include <vector>

#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

/// Two channels that answer each other, without coroutines.
class ping_pong {
 public:
  ping_pong(channel& here, channel& there, std::size_t bytes)
      : ends_{&here, &there}, out_(bytes), in_(bytes), over_(here.get_executor()) {
    for (operation* const each : {&send_, &recv_}) {
      each->owner = this;
      each->flow = 9;
      each->complete = [](operation& op) { static_cast<ping_pong*>(op.owner)->completed(op); };
    }
    send_.what = operation::kind::send;
    recv_.what = operation::kind::recv;
  }

  /// How many allocations that many round trips take.
  awaitable<std::uint64_t> run(int round_trips) {
    left_ = 2 * round_trips;
    const std::uint64_t before = allocations();
    next();
    while (left_ > 0 || pending_ > 0) co_await over_.wait();
    co_return allocations() - before;
  }

 private:
  void next() {
    while (left_ > 0) {
      --left_;
      std::swap(ends_[0], ends_[1]);
      send_.view = mutable_view(out_);
      recv_.view = mutable_view(in_);
      pending_ = 2;
      // Every other message may come before its receive.
      const bool receive_first = left_ % 4 < 2;
      if (receive_first && ends_[1]->start(recv_)) check(recv_);
      if (ends_[0]->start(send_)) check(send_);
      if (!receive_first && ends_[1]->start(recv_)) check(recv_);
      if (pending_ > 0) return;
    }
    over_.notify_all();
  }
  void check(const operation& op) {
    EXPECT_FALSE(op.result) << op.result.message();
    --pending_;
  }
  void completed(const operation& op) {
    check(op);
    if (pending_ == 0) next();
  }

  channel* ends_[2];
  std::vector<std::byte> out_, in_;
  operation send_, recv_;
  async_condition over_;
  int left_ = 0;
  int pending_ = 0;
};

awaitable<void> count_allocations(channel& from, channel& to) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 20}) {
    const int round_trips = bytes < 100'000 ? 500 : 60;
    ping_pong play(from, to, bytes);
    co_await play.run(round_trips);
    std::uint64_t once = 0, many = 0;
    // On a busy machine any message may be the first that comes before its receive, for which an
    // end allocates memory that it keeps.
    for (int attempt = 0; attempt < 3; ++attempt) {
      // The first of a run enters the loop, and timers may expire meanwhile.
      once = co_await play.run(1);
      many = co_await play.run(round_trips);
      if (many <= once + 8) break;
    }
    EXPECT_LE(many, once + 8) << bytes << " bytes: " << many << " allocations in " << round_trips
                              << " round trips, " << once << " in one";
  }
}

TEST_P(channel_test, AllocatesNothingInSteadyState) {
  if (!GetParam().is_steady)
    GTEST_SKIP()
        << "not in steady state: lanes are reset, each view is new memory, or a test forwards it";
  both_ways(count_allocations, settings{});
}

}  // namespace
}  // namespace tandem::test
