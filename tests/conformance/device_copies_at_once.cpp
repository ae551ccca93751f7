// Concurrent peer copies: which are batched into one call, which become one copy, and which fail
// with a call.

#include <thread>

#include "conformance/peers_rig.hpp"

namespace tandem::test {
namespace {

/// Ten messages, none of which completes before `end`.
class ten_at_once {
 public:
  static constexpr std::size_t each = 20'001, count = 10, stride = each + 64;

  /// Distances between the starts of consecutive messages at either end: `each` where they are
  /// adjacent.
  explicit ten_at_once(peers& all, std::size_t from_stride = stride, std::size_t to_stride = stride)
      : all_(all), from_stride_(from_stride), to_stride_(to_stride) {}

  awaitable<void> begin() {
    co_await hold();
    co_await go_on(count);
  }
  /// Three copies start at once, and seven wait.
  awaitable<void> begin_with_three() {
    co_await hold();
    for (int i = 0; i < 3; ++i) co_await go_on(1);
    co_await go_on(count - 3);
    EXPECT_EQ(single_copies(), 3U);
    EXPECT_EQ(all_.gpus.calls("cuMemcpyBatchAsync"), 0U);
  }
  /// The number of failed messages, all by `device_failed`; the others have the right bytes.
  awaitable<int> end() {
    int failed = 0;
    const std::vector<std::byte> right = pattern(stride * count, 9);
    for (std::size_t i = 0; i < count; ++i) {
      const auto of_send = co_await run_until_over(*sends_[i], all_);
      const auto of_recv = co_await run_until_over(*recvs_[i], all_);
      if (!of_recv) {
        EXPECT_FALSE(of_send);
        const auto came = all_.read(all_.into, stride * count).subspan(i * to_stride_, each);
        EXPECT_TRUE(std::equal(came.begin(), came.end(),
                               right.begin() + static_cast<long>(i * from_stride_)));
        continue;
      }
      expect_error(of_send ? of_send : of_recv, errc::device_failed);
      if (of_send) expect_error(of_recv, errc::message_cancelled);
      ++failed;
    }
    all_.gpus.manual(false);
    co_await all_.transfer(5000, 8);
    co_return failed;
  }
  std::size_t single_copies() const { return all_.gpus.calls("cuMemcpyAsync") - before_; }

 private:
  awaitable<void> hold() {
    co_await all_.by_hand();
    std::this_thread::sleep_for(10ms);  // so that no reader counts as active any more
    before_ = all_.gpus.calls("cuMemcpyAsync");
    all_.write(all_.text, stride * count, 9);
  }
  awaitable<void> go_on(std::size_t more) {
    for (std::size_t i = sends_.size(); more-- > 0; ++i) {
      recvs_.push_back(std::make_unique<background>(
          all_.to->get_executor(), all_.to->recv(0, all_.into.view().part(i * to_stride_, each))));
      sends_.push_back(std::make_unique<background>(
          all_.from->get_executor(),
          all_.from->send(0, const_view(all_.text.view()).part(i * from_stride_, each))));
    }
    co_await until_queued(all_);
    co_await turns(50);
  }

  peers& all_;
  const std::size_t from_stride_, to_stride_;
  std::vector<std::unique_ptr<background>> recvs_, sends_;
  std::size_t before_ = 0;
};

PEER_TEST(CopiesRequestedDuringTheFirstAreOneBatch) {
  co_await all.warm_up_both();
  ten_at_once ten(all);
  co_await ten.begin();
  EXPECT_EQ(ten.single_copies(), 1U);
  EXPECT_EQ(all.gpus.calls("cuMemcpyBatchAsync"), 1U) << "before the first is over";
  const int failed = co_await ten.end();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(all.gpus.calls("cuMemcpyBatchAsync"), 1U);
}

PEER_TEST(WaitingCopiesAreOneBatch) {
  co_await all.warm_up_both();
  ten_at_once ten(all);
  co_await ten.begin_with_three();
  const int failed = co_await ten.end();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(all.gpus.calls("cuMemcpyBatchAsync"), 1U);
  EXPECT_EQ(ten.single_copies(), 4U) << "with that of the last transfer";
}

PEER_TEST(AdjacentViewsAtBothEndsAreOneCopy) {
  co_await all.warm_up_both();
  ten_at_once ten(all, ten_at_once::each, ten_at_once::each);
  co_await ten.begin_with_three();
  const int failed = co_await ten.end();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(all.gpus.calls("cuMemcpyBatchAsync"), 0U);
  EXPECT_EQ(ten.single_copies(), 5U) << "seven in one, and that of the last transfer";
}

PEER_TEST(AdjacentViewsAtOneEndAreNotMerged) {
  co_await all.warm_up_both();
  std::size_t batches = 0;
  for (const bool is_of_sender : {true, false}) {
    const std::size_t from = is_of_sender ? ten_at_once::each : ten_at_once::stride;
    const std::size_t to = is_of_sender ? ten_at_once::stride : ten_at_once::each;
    ten_at_once ten(all, from, to);
    co_await ten.begin();
    const int failed = co_await ten.end();
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(all.gpus.calls("cuMemcpyBatchAsync"), ++batches);
  }
}

/// Drivers reject a copy that crosses an allocation's end, and so does the double.
awaitable<void> copy_adjacent_allocations(peers& all) {
  constexpr std::size_t each = std::size_t{1} << 16;
  const std::array<buffer, 2> text{buffer(each, memory_kind::cuda, 0),
                                   buffer(each, memory_kind::cuda, 0)};
  const std::array<buffer, 2> into{buffer(each, memory_kind::cuda, 1),
                                   buffer(each, memory_kind::cuda, 1)};
  EXPECT_EQ(text[0].data() + each, text[1].data());
  EXPECT_EQ(into[0].data() + each, into[1].data());
  for (std::uint64_t round = 0; round < 4; ++round) {
    const std::size_t batches = all.gpus.calls("cuMemcpyBatchAsync");
    if (round == 3) co_await all.by_hand();
    std::vector<std::unique_ptr<background>> parts;
    const auto begin = [&](const buffer& from, const buffer& to, std::size_t bytes) {
      parts.push_back(std::make_unique<background>(all.to->get_executor(),
                                                   all.to->recv(0, to.view().part(0, bytes))));
      parts.push_back(std::make_unique<background>(
          all.from->get_executor(), all.from->send(0, const_view(from.view()).part(0, bytes))));
    };
    begin(all.text, all.into, each);
    if (round == 3) co_await until_queued(all);
    for (const int i : {0, 1}) {
      write_pattern(all.gpus, text[i], each, 2 * round + static_cast<unsigned>(i));
      begin(text[i], into[i], each);
    }
    co_await turns(50);
    for (const auto& part : parts) {
      const auto failure = co_await run_until_over(*part, all);
      EXPECT_FALSE(failure);
    }
    for (const int i : {0, 1}) {
      expect_pattern(all.gpus, into[i], each, 2 * round + static_cast<unsigned>(i));
    }
    if (round == 3) {
      EXPECT_EQ(all.gpus.calls("cuMemcpyBatchAsync"), batches + 1);
    }
  }
}
TEST(PeerCopies, AdjacentAllocationsAreCopiedSeparately) {
  cuda_double::options as;
  as.side_by_side = true;
  gpus_of_this_test(as);
  run_test(with_peers(copy_adjacent_allocations, as));
}

PEER_TEST(ARejectedBatchFailsOnlyTheInvalidCopy) {
  co_await all.warm_up_both();
  ten_at_once ten(all);
  co_await ten.begin_with_three();
  all.gpus.fail("cuMemcpyBatchAsync", 1, 1);
  all.gpus.fail("cuMemcpyAsync", 3, 1);
  const int failed = co_await ten.end();
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(ten.single_copies(), 11U);
}

PEER_TEST(ABatchWithoutAnEventFailsCompletely) {
  co_await all.warm_up_both();
  ten_at_once ten(all);
  co_await ten.begin_with_three();
  all.gpus.fail("cuEventRecord", 1, 1);
  const int failed = co_await ten.end();
  EXPECT_EQ(failed, 7);
}

PEER_TEST(AnOldDriverCopiesOneByOne) {
  co_await all.warm_up_both();
  all.gpus.table().copy_many = nullptr;
  ten_at_once ten(all);
  co_await ten.begin_with_three();
  const int failed = co_await ten.end();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(ten.single_copies(), 11U);
}

}  // namespace
}  // namespace tandem::test
