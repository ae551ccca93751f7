// Which block carries what of a message, and which messages a kernel carries, without a device.
#include "streams/slot_launch.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>

#include "support/pattern.hpp"
#include "support/stream_kernels_on_host.hpp"

namespace tandem::test {
namespace {

using detail::slot_work;

constexpr std::uint64_t slots_of_all =
    std::uint64_t{detail::slot_blocks} * detail::slots_per_block * detail::slot_bytes;

TEST(SlotLaunch, PartsOfBlocksCoverAMessageOnce) {
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{15}, std::uint64_t{16}, std::uint64_t{17},
        std::uint64_t{8192}, std::uint64_t{8193}, std::uint64_t{100'001}, std::uint64_t{131'072},
        std::uint64_t{131'073}, slots_of_all - 1, slots_of_all, slots_of_all + 1,
        std::uint64_t{0xffffffff}}) {
    SCOPED_TRACE(bytes);
    std::uint64_t covered = 0;
    for (unsigned block = 0; block < detail::slot_blocks; ++block) {
      const detail::block_part part = detail::part_of(bytes, block);
      if (part.bytes == 0) {
        EXPECT_EQ(part.pieces(), 0U);
        continue;
      }
      EXPECT_LT(block, detail::blocks_for(bytes));
      EXPECT_EQ(part.first, covered);
      EXPECT_EQ(part.first % detail::copy_unit_bytes, 0U);
      EXPECT_EQ(part.pieces(), (part.bytes + detail::slot_bytes - 1) / detail::slot_bytes);
      covered += part.bytes;
    }
    EXPECT_EQ(covered, bytes);
  }
  EXPECT_EQ(detail::blocks_for(8), 1U);
  EXPECT_EQ(detail::blocks_for(std::uint64_t{1} << 20), detail::slot_blocks);
}

/// What a message as long as all slots needs: a send completes without its receive.
TEST(SlotLaunch, SlotsHoldAMessageOfTheirLength) {
  for (unsigned block = 0; block < detail::slot_blocks; ++block) {
    EXPECT_LE(detail::part_of(slots_of_all, block).pieces(), detail::slots_per_block);
  }
}

std::vector<slot_work> plan_launches(std::span<const detail::slot_request> messages) {
  std::vector<slot_work> all;
  detail::launch_messages(messages, [&all](slot_work& work) { all.push_back(work); });
  return all;
}

/// An end of no memory, whose addresses tell it apart.
detail::slot_end end_at(std::uintptr_t number) {
  detail::slot_end made;
  made.own = reinterpret_cast<detail::slot_memory*>(number << 32);  // NOLINT: never used
  return made;
}

TEST(SlotLaunch, MessagesOfAGroupAreOneKernel) {
  detail::slot_end first = end_at(1), second = end_at(2);
  char data[4] = {};
  const detail::slot_request messages[] = {
      {&second, false, data, {3, 9}},     {&first, true, data + 1, {300'000, 0}},
      {&second, false, data + 2, {5, 8}}, {&first, false, data, {0, 0}},
      {&second, true, data + 3, {7, 0}},
  };
  const std::vector<slot_work> planned = plan_launches(messages);
  ASSERT_EQ(planned.size(), 1U);
  const slot_work& work = planned.front();
  EXPECT_EQ(work.blocks, detail::slot_blocks);
  ASSERT_EQ(work.directions, 3U);  // an empty message needs none
  EXPECT_EQ(work.direction[0].own, first.own);
  EXPECT_EQ(work.direction[1].own, second.own);
  EXPECT_EQ(work.direction[2].own, second.own);
  EXPECT_EQ(work.direction[0].is_send, 1U);
  EXPECT_EQ(work.direction[1].is_send, 1U);
  EXPECT_EQ(work.direction[2].is_send, 0U);
  ASSERT_EQ(work.direction[2].messages, 2U);
  const unsigned at = work.direction[2].first_message;
  EXPECT_EQ(work.message[at].data, data);
  EXPECT_EQ(work.message[at + 1].data, data + 2);
  EXPECT_EQ(work.message[at].head.call, 9U);
  EXPECT_EQ(work.message[at + 1].head.bytes, 5U);
  EXPECT_EQ(work.message[at + 1].head.call, 8U);
  EXPECT_EQ(second.received[0], 2U);
  EXPECT_EQ(second.received[1], 0U);
  EXPECT_EQ(second.sent[0], 1U);
  EXPECT_EQ(first.received[0], 0U);
  EXPECT_EQ(first.sent[detail::slot_blocks - 1], 1U);
  // Behind those.
  const auto next = plan_launches({&messages[0], 1});
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next.front().blocks, 1U);
  EXPECT_EQ(next.front().direction[0].counts[0], 2U);
  EXPECT_EQ(second.received[0], 3U);
  EXPECT_TRUE(plan_launches({&messages[3], 1}).empty());
}

/// With so many other ranks, so many messages in each direction.
std::vector<slot_work> plan_many(std::deque<detail::slot_end>& ends, unsigned ranks,
                                 unsigned each) {
  std::vector<detail::slot_request> messages;
  static char data = 0;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    detail::slot_end& with = ends.emplace_back(end_at(rank + 1));
    for (unsigned i = 0; i < each; ++i) {
      messages.push_back({&with, false, &data, {1000 + i, 0}});
      messages.push_back({&with, true, &data, {2000 + i, 0}});
    }
  }
  return plan_launches(messages);
}

/// The first messages of all directions come before the others, and their sends before their
/// receives: what a kernel waits for is in the other rank's kernel of the same number, or before.
TEST(SlotLaunch, MoreThanAKernelTakes) {
  for (const auto& [ranks, each] : {std::pair(30U, 5U), std::pair(1U, 100U), std::pair(5U, 7U)}) {
    SCOPED_TRACE(ranks);
    std::deque<detail::slot_end> ends;
    const std::vector<slot_work> planned = plan_many(ends, ranks, each);
    EXPECT_GE(planned.size(), 2U);
    unsigned sends = 0, receives = 0;
    unsigned last_number = 0;
    bool has_received = false;
    for (const slot_work& work : planned) {
      EXPECT_LE(work.directions, slot_work::max_directions);
      for (unsigned d = 0; d < work.directions; ++d) {
        const detail::slot_direction& direction = work.direction[d];
        const bool is_send = direction.is_send != 0;
        EXPECT_LE(direction.first_message + direction.messages, slot_work::max_messages);
        ASSERT_GT(direction.messages, 0U);
        (is_send ? sends : receives) += direction.messages;
        // A direction goes on in the next kernel where the last one has ended.
        const unsigned number =
            work.message[direction.first_message].head.bytes - (is_send ? 2000 : 1000);
        EXPECT_EQ(direction.counts[0], number);
        EXPECT_GE(number, last_number);
        if (number != last_number) has_received = false;
        EXPECT_FALSE(is_send && has_received);
        has_received = has_received || !is_send;
        last_number = number;
      }
    }
    EXPECT_EQ(sends, ranks * each);
    EXPECT_EQ(receives, ranks * each);
    for (const detail::slot_end& with : ends) {
      EXPECT_EQ(with.sent[0], each);
      EXPECT_EQ(with.received[0], each);
    }
  }
}

/// As the peer's kernels have them, too: none waits for a message behind those.
TEST(SlotLaunch, KernelsOfTwoRanksHaveAsManySendsAsReceives) {
  std::deque<detail::slot_end> ends;
  for (const slot_work& work : plan_many(ends, 1, 100)) {
    ASSERT_EQ(work.directions, 2U);
    EXPECT_EQ(work.direction[0].messages, work.direction[1].messages);
  }
}

TEST(SlotLaunch, FewMessagesHaveAShortArgument) {
  std::deque<detail::slot_end> ends;
  const std::vector<slot_work> few = plan_many(ends, 1, 2);
  ASSERT_EQ(few.size(), 1U);
  const std::optional<detail::short_slot_work> made = detail::as_short(few.front());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->blocks, few.front().blocks);
  ASSERT_EQ(made->directions, 2U);
  EXPECT_EQ(made->direction[1].first_message, 2U);
  EXPECT_EQ(made->direction[1].messages, 2U);
  EXPECT_EQ(made->message[3].head.bytes, 1001U);
  EXPECT_FALSE(detail::as_short(plan_many(ends, 1, 3).front()));
  EXPECT_FALSE(detail::as_short(plan_many(ends, 2, 1).front()));
}

TEST(SlotLaunch, AnExchangeGoesOnBehindMessages) {
  detail::slot_end between = end_at(1);
  char data = 0;
  const detail::slot_request before[] = {{&between, true, &data, {200'000, 0}}};
  plan_launches(before);
  const detail::slot_exchange planned = detail::plan_exchange(between, {40'000, 7}, true);
  EXPECT_EQ(planned.head.bytes, 40'000U);
  EXPECT_EQ(planned.head.call, 7U);
  EXPECT_EQ(planned.send.own, between.own);
  EXPECT_EQ(planned.receive.own, between.own);
  EXPECT_EQ(planned.send.is_send, 1U);
  EXPECT_EQ(planned.receive.is_send, 0U);
  EXPECT_EQ(planned.send.counts[0], 1U);
  EXPECT_EQ(planned.receive.counts[0], 0U);
  ASSERT_EQ(detail::blocks_for(40'000), 5U);
  EXPECT_EQ(between.sent[4], 2U);
  EXPECT_EQ(between.sent[5], 1U);
  EXPECT_EQ(between.received[4], 1U);
  EXPECT_EQ(between.received[5], 0U);
  // Of a root, which sends nothing.
  detail::plan_exchange(between, {40'000, 7}, false);
  EXPECT_EQ(between.sent[4], 2U);
  EXPECT_EQ(between.received[4], 2U);
}

TEST(SlotKernel, CopiesAnyLengthAndAlignment) {
  alignas(16) std::array<char, 9000> from{}, to{};
  const std::vector<std::byte> text = pattern(from.size(), 5);
  std::memcpy(from.data(), text.data(), from.size());
  for (const unsigned threads : {1U, 7U, 64U}) {
    for (const std::size_t offset : {0U, 1U, 4U, 6U, 8U}) {
      for (const std::size_t bytes : {1U, 15U, 16U, 17U, 64U, 1000U, 7777U, 8192U}) {
        to.fill(0);
        copy_piece_on_host(to.data() + 16, from.data() + offset, bytes, threads);
        EXPECT_EQ(std::memcmp(to.data() + 16, from.data() + offset, bytes), 0)
            << threads << ' ' << offset << ' ' << bytes;
        EXPECT_EQ(to[15], 0);
        EXPECT_EQ(to[16 + bytes], 0);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::test
