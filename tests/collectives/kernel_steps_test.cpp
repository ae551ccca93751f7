// What ranks queue for collectives of kernels, carried out on host memory.
#include "streams/kernel_steps.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <string>

#include "reduce/reducer.hpp"

namespace tandem::test {
namespace {

using detail::kernel_collective;
using detail::reducer;

/// Messages on their way, by sender and receiver.
using wires = std::map<std::pair<int, int>, std::deque<std::string>>;

/// Records what a rank queues, and carries it out when messages allow that.
class recorded_rank final : public detail::kernel_steps {
 public:
  recorded_rank(int rank, wires& over, const reducer& by) : rank_(rank), over_(over), by_(by) {}

  void exchange(std::span<const transfer> messages) override {
    EXPECT_FALSE(messages.empty());
    ++exchanges;
    const std::vector<transfer> all(messages.begin(), messages.end());
    for (const transfer& each : all) {
      EXPECT_GT(each.bytes, 0U);
      EXPECT_NE(each.peer, rank_);
      if (each.is_send) bytes_sent += each.bytes;
    }
    queued_.push_back([this, all, is_sent = false]() mutable { return carry(all, is_sent); });
  }
  void exchange_and_combine(const combination& what) override {
    ++exchanges;
    EXPECT_GT(what.bytes, 0U);
    if (what.sent != nullptr) bytes_sent += what.bytes;
    queued_.push_back([this, what, is_sent = false]() mutable {
      std::string arrived(what.bytes, '\0');
      std::vector<transfer> all{{1 - rank_, false, arrived.data(), what.bytes}};
      // A send only reads.
      if (what.sent != nullptr)
        all.push_back({1 - rank_, true, const_cast<char*>(what.sent), what.bytes});
      if (!carry(all, is_sent)) return false;
      by_.combine(what.into, what.combined, arrived.data(), what.bytes);
      return true;
    });
  }
  void copy(char* into, const char* from, std::size_t bytes) override {
    add([=] { std::memcpy(into, from, bytes); });
  }
  void prepare(char* into, const char* from, std::size_t bytes) override {
    add([=, this] { by_.prepare(into, from, bytes); });
  }
  void combine(char* into, const char* a, const char* b, std::size_t bytes) override {
    ++combinations;
    add([=, this] { by_.combine(into, a, b, bytes); });
  }
  void finish(char* data, std::size_t bytes) override {
    add([=, this] { by_.finish({data, bytes}); });
  }

  /// Whether something was carried out.
  bool go_on() {
    bool has_moved = false;
    while (!queued_.empty() && queued_.front()()) {
      queued_.pop_front();
      has_moved = true;
    }
    return has_moved;
  }
  bool is_over() const { return queued_.empty(); }

  int exchanges = 0, combinations = 0;  ///< the second: of kernels that only combine
  std::size_t bytes_sent = 0;

 private:
  template <class Function>
  void add(Function function) {
    queued_.push_back([function] {
      function();
      return true;
    });
  }
  bool carry(const std::vector<transfer>& all, bool& is_sent) {
    for (const transfer& each : all) {
      if (each.is_send && !is_sent) over_[{rank_, each.peer}].emplace_back(each.data, each.bytes);
    }
    is_sent = true;
    for (const transfer& each : all) {
      if (!each.is_send && over_[{each.peer, rank_}].empty()) return false;
    }
    for (const transfer& each : all) {
      if (each.is_send) continue;
      std::deque<std::string>& wire = over_[{each.peer, rank_}];
      EXPECT_EQ(wire.front().size(), each.bytes);
      std::memcpy(each.data, wire.front().data(), std::min(each.bytes, wire.front().size()));
      wire.pop_front();
    }
    return true;
  }

  const int rank_;
  wires& over_;
  const reducer& by_;
  std::deque<std::function<bool()>> queued_;
};

/// Memory with nothing else behind it, at any alignment that elements allow.
using memory = std::vector<char>;

memory numbers_of(int rank, std::size_t count) {
  memory made(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 31) % 1009) /
                        (static_cast<float>(rank) + 3.0F);
    std::memcpy(made.data() + i * sizeof value, &value, sizeof value);
  }
  return made;
}

struct one_case {
  collective what;
  int ranks;
  std::size_t count;  ///< elements of float32
  std::size_t scratch_bytes;
  reduction how = reduce_op::sum;
  bool is_in_place = false;
  int root = 0;
};

/// All ranks of one call.
class whole_call {
 public:
  explicit whole_call(const one_case& of)
      : of_(of), ranks_(static_cast<std::size_t>(of.ranks)), bytes_(of.count * sizeof(float)) {
    const bool splits = of.what == collective::reduce_scatter;
    const bool joins = of.what == collective::all_gather;
    for (int r = 0; r < of.ranks; ++r) {
      from_.push_back(numbers_of(r, splits ? of.count * ranks_ : of.count));
      into_.emplace_back(joins ? bytes_ * ranks_ : bytes_);
      scratch_.emplace_back(of.scratch_bytes);
      by_.emplace_back(data_type::float32, of.how, of.ranks);
      if (!of.is_in_place) continue;
      const std::size_t own = static_cast<std::size_t>(r) * bytes_;
      if (joins) std::ranges::copy(from_.back(), into_.back().begin() + static_cast<long>(own));
    }
  }

  void run() {
    const std::vector<memory> given = from_;
    wires over;
    std::deque<recorded_rank> all;
    for (int r = 0; r < of_.ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      recorded_rank& rank = all.emplace_back(r, over, by_[at]);
      kernel_collective call{.what = of_.what, .rank = r, .ranks = of_.ranks, .root = of_.root};
      call.from = from_[at].data();
      call.into = into_of(r);
      call.bytes = bytes_;
      call.prepares = reduces() && by_[at].prepares();
      if (of_.is_in_place && of_.what == collective::all_gather)
        call.from = into_of(r) + at * bytes_;
      const bool uses_scratch = detail::uses_scratch(call);
      detail::queue_steps(call, uses_scratch ? std::span<char>(scratch_[at]) : std::span<char>(),
                          rank);
      combinations = std::max(combinations, rank.combinations);
      exchanges = std::max(exchanges, rank.exchanges);
      bytes_sent = std::max(bytes_sent, rank.bytes_sent);
    }
    bool has_moved = true;
    while (std::exchange(has_moved, false)) {
      for (recorded_rank& each : all) has_moved |= each.go_on();
    }
    for (const recorded_rank& each : all) EXPECT_TRUE(each.is_over());
    for (const auto& [ends, wire] : over) EXPECT_TRUE(wire.empty());
    for (int r = 0; r < of_.ranks; ++r) expect_result(given, r);
  }

  int exchanges = 0;           ///< of the rank with most
  int combinations = 0;        ///< likewise
  std::size_t bytes_sent = 0;  ///< likewise

 private:
  bool reduces() const {
    return of_.what == collective::all_reduce || of_.what == collective::reduce ||
           of_.what == collective::reduce_scatter;
  }
  char* into_of(int r) {
    const auto at = static_cast<std::size_t>(r);
    if (!of_.is_in_place || of_.what == collective::all_gather) return into_[at].data();
    return from_[at].data() + (of_.what == collective::reduce_scatter ? at * bytes_ : 0);
  }
  /// Combined in the order of the ranks.
  memory expected_sum(const std::vector<memory>& given, std::size_t offset) const {
    memory sum(bytes_);
    by_[0].prepare(sum.data(), given[0].data() + offset, bytes_);
    for (std::size_t r = 1; r < ranks_; ++r) {
      memory next(bytes_);
      by_[r].prepare(next.data(), given[r].data() + offset, bytes_);
      by_[r].combine(sum.data(), sum.data(), next.data(), bytes_);
    }
    by_[0].finish({sum.data(), bytes_});
    return sum;
  }
  void expect_result(const std::vector<memory>& given, int r) {
    SCOPED_TRACE(r);
    memory expected;
    switch (of_.what) {
      case collective::reduce_scatter:
        expected = expected_sum(given, static_cast<std::size_t>(r) * bytes_);
        break;
      case collective::all_gather:
        for (const memory& each : given) expected.insert(expected.end(), each.begin(), each.end());
        break;
      case collective::broadcast:
        if (r != of_.root) expected = given[static_cast<std::size_t>(of_.root)];
        break;
      default:
        if (of_.what == collective::all_reduce || r == of_.root) expected = expected_sum(given, 0);
    }
    if (expected.empty()) return;
    EXPECT_EQ(std::memcmp(into_of(r), expected.data(), expected.size()), 0);
  }

  const one_case of_;
  const std::size_t ranks_, bytes_;
  std::vector<memory> from_, into_, scratch_;
  std::vector<reducer> by_;
};

TEST(KernelSteps, EveryCollective) {
  for (const collective what : {collective::broadcast, collective::reduce, collective::all_reduce,
                                collective::all_gather, collective::reduce_scatter}) {
    for (const int ranks : {2, 3, 4, 7}) {
      for (const std::size_t count : {1UL, 33UL, 5000UL, 70'001UL}) {
        SCOPED_TRACE(std::string(name(what)) + " of " + std::to_string(ranks) + " ranks, " +
                     std::to_string(count) + " elements");
        const bool takes_root = what == collective::broadcast || what == collective::reduce;
        for (int root = 0; root < (takes_root ? ranks : 1); ++root) {
          for (const std::size_t scratch : {detail::min_scratch_bytes(ranks), 4UL << 20}) {
            whole_call({what, ranks, count, scratch, reduce_op::sum, false, root}).run();
          }
        }
        ASSERT_FALSE(testing::Test::HasFailure());
      }
    }
  }
}

TEST(KernelSteps, InPlaceAndWithPreparation) {
  for (const collective what : {collective::reduce, collective::all_reduce, collective::all_gather,
                                collective::reduce_scatter}) {
    for (const int ranks : {2, 3, 5}) {
      for (const reduction how :
           {reduction(reduce_op::average), premultiplied_sum(0.3), reduction(reduce_op::maximum)}) {
        for (const std::size_t count : {1UL, 1000UL, 90'000UL}) {
          SCOPED_TRACE(std::string(name(what)) + ' ' + std::string(name(how.op)) + " of " +
                       std::to_string(ranks) + " ranks, " + std::to_string(count) + " elements");
          whole_call({what, ranks, count, 100'000, how, true, ranks - 1}).run();
          whole_call({what, ranks, count, 100'000, how, false, ranks - 1}).run();
          ASSERT_FALSE(testing::Test::HasFailure());
        }
      }
    }
  }
}

TEST(KernelSteps, CostWhatTheySay) {
  const auto cost = [](int ranks, std::size_t bytes) {
    whole_call call({collective::all_reduce, ranks, bytes / sizeof(float), 32UL << 20});
    call.run();
    return std::pair(call.exchanges, call.bytes_sent);
  };
  EXPECT_EQ(cost(2, 1 << 20), std::pair(1, std::size_t{1} << 20));
  EXPECT_EQ(cost(4, 1 << 16), std::pair(1, std::size_t{3} << 16));
  EXPECT_EQ(cost(4, 1 << 20), std::pair(2, 2 * (std::size_t{3} << 20) / 4));
}

/// The kernels that only combine.
TEST(KernelSteps, TwoRanksCombineWhatTheyExchange) {
  const auto combinations = [](collective what, int ranks, std::size_t bytes, reduction how) {
    whole_call call({what, ranks, bytes / sizeof(float), 32UL << 20, how});
    call.run();
    return call.combinations;
  };
  const reduction average = reduce_op::average;
  for (const collective what :
       {collective::all_reduce, collective::reduce_scatter, collective::reduce}) {
    for (const reduction& how : {reduction(reduce_op::sum), average}) {
      EXPECT_EQ(combinations(what, 2, 8, how), 0);
      EXPECT_EQ(combinations(what, 2, 32 << 20, how), 0);
      EXPECT_EQ(combinations(what, 3, 8, how), 2);
    }
  }
}

}  // namespace
}  // namespace tandem::test
