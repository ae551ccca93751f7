#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <tandem/channels.hpp>
#include <tandem/error.hpp>

#include "shared_memory/shared_pages.hpp"
#include "support/pattern.hpp"
#include "transports/shm/mapped_buffers.hpp"
#include "transports/shm/offered_buffers.hpp"

namespace tandem::shm {
namespace {

constexpr std::size_t bytes = 100'000;

TEST(shared_buffer, is_zeroed_and_page_aligned) {
  const shared_buffer made(bytes);
  EXPECT_EQ(made.size(), bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.data()) % 4096, 0U);
  EXPECT_TRUE(std::all_of(made.data(), made.data() + bytes,
                          [](std::byte each) { return each == std::byte{0}; }));
}

TEST(shared_buffer, of_zero_bytes_is_empty) {
  const shared_buffer none(0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0U);
}

TEST(shared_buffer, of_too_many_bytes_is_refused) {
  try {
    const shared_buffer made(std::size_t{1} << 60);
    FAIL() << "there is an exabyte";
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::limit_exceeded);
    EXPECT_NE(std::string(why.what()).find("1152921504606846976 bytes"), std::string::npos)
        << why.what();
  }
}

TEST(shared_buffer, is_found_by_any_address_during_its_lifetime) {
  std::byte* was = nullptr;
  {
    shared_buffer made(bytes);
    was = made.data();
    ASSERT_TRUE(find_shared_pages(was, bytes));
    EXPECT_EQ(find_shared_pages(was, bytes)->data(), was);
    EXPECT_TRUE(find_shared_pages(was + bytes - 1, 1));
    EXPECT_FALSE(find_shared_pages(was + 1, bytes)) << "one byte too many";
    EXPECT_FALSE(find_shared_pages(was - 1, 1));
    EXPECT_FALSE(find_shared_pages(was + bytes, 1));
    const shared_buffer moved = std::move(made);
    EXPECT_EQ(moved.data(), was);
    EXPECT_EQ(made.data(), nullptr);  // NOLINT: the moved-from buffer is empty
    EXPECT_TRUE(find_shared_pages(was, bytes));
  }
  EXPECT_FALSE(find_shared_pages(was, bytes));
}

/// Two ends, as in a link.
struct ends {
  memory shared = memory::create(min_ring_bytes);
  offered_buffers out{shared.control(0), shared.control(1)};
  mapped_buffers in{shared.control(1), shared.control(0)};

  bool reaches(const shared_buffer& of) { return out.find(of.data(), of.size()).has_value(); }
  /// Offers and maps it.
  offered_buffers::buffer_location share(const shared_buffer& of) {
    EXPECT_FALSE(reaches(of)) << "not mapped yet";
    in.take_offers();
    const auto buffer_location = out.find(of.data(), of.size());
    EXPECT_TRUE(buffer_location);
    return buffer_location.value_or(offered_buffers::buffer_location{});
  }
};

TEST(shared_buffers, one_end_reads_what_the_other_writes) {
  ends both;
  const shared_buffer made(bytes);
  const offered_buffers::buffer_location buffer_location = both.share(made);
  EXPECT_EQ(buffer_location.offset, 0U);
  const std::vector<std::byte> pattern = test::pattern(bytes, 3);
  std::copy(pattern.begin(), pattern.end(), made.data());
  const std::byte* const there = both.in.find(buffer_location.slot, 0, bytes);
  ASSERT_NE(there, nullptr);
  EXPECT_NE(there, made.data()) << "mapped once more";
  EXPECT_EQ(test::first_wrong(std::span(there, bytes), 3), std::nullopt);
  const auto part = both.out.find(made.data() + 5000, 10);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->slot, buffer_location.slot);
  EXPECT_EQ(part->offset, 5000U);
}

TEST(shared_buffers, payload_outside_is_refused) {
  ends both;
  const shared_buffer made(bytes);
  const std::uint32_t slot = both.share(made).slot;
  EXPECT_EQ(both.in.find(slot, 1, bytes), nullptr);
  EXPECT_EQ(both.in.find(slot, bytes + 1, 0), nullptr);
  EXPECT_EQ(both.in.find(slot, ~std::uint64_t{0}, 2), nullptr);
  EXPECT_NE(both.in.find(slot, bytes - 1, 1), nullptr);
  EXPECT_EQ(both.in.find(slot + 1, 0, 1), nullptr) << "never offered";
  EXPECT_EQ(both.in.find(max_offers, 0, 1), nullptr);
  EXPECT_EQ(both.in.find(~std::uint32_t{0}, 0, 1), nullptr);
}

TEST(shared_buffers, other_memory_is_not_found) {
  ends both;
  const shared_buffer made(bytes);
  both.share(made);
  const std::vector<std::byte> other(bytes);
  EXPECT_FALSE(both.out.find(other.data(), bytes));
}

TEST(shared_buffers, slot_of_destroyed_buffer_is_reused) {
  ends both;
  std::uint32_t first = 0;
  const std::byte* mapped = nullptr;
  {
    const shared_buffer made(bytes);
    first = both.share(made).slot;
    std::fill_n(made.data(), bytes, std::byte{9});
    mapped = both.in.find(first, 0, bytes);
    ASSERT_EQ(mapped[bytes - 1], std::byte{9});
  }
  EXPECT_EQ(mapped[0], std::byte{0}) << "its memory was released, mapped or not";
  const shared_buffer next(2 * bytes);
  EXPECT_EQ(both.share(next).slot, first);
  EXPECT_NE(both.in.find(first, 0, 2 * bytes), nullptr);
}

TEST(shared_buffers, excess_buffers_use_the_ring) {
  ends both;
  std::list<shared_buffer> made;
  for (std::size_t i = 0; i < max_offers; ++i) both.share(made.emplace_back(4096));
  const shared_buffer more(4096);
  EXPECT_FALSE(both.reaches(more));
  both.in.take_offers();
  EXPECT_FALSE(both.reaches(more));
  made.pop_front();
  both.share(more);
}

/// Destroyed before the peer maps it, owned by another process, or no such memory.
TEST(shared_buffers, unmappable_buffer_is_not_used) {
  ends both;
  {
    const shared_buffer gone(bytes);
    EXPECT_FALSE(both.reaches(gone));
  }
  both.in.take_offers();
  EXPECT_EQ(both.in.find(0, 0, 1), nullptr);
  const shared_buffer made(bytes);
  EXPECT_FALSE(both.reaches(made));
  control_block& peer_control = both.shared.control(0);
  peer_control.offered[0].inode.fetch_add(1);
  both.in.take_offers();
  EXPECT_FALSE(both.reaches(made));
  EXPECT_EQ(both.in.find(0, 0, 1), nullptr);
  peer_control.offered[0].inode.fetch_sub(1);
  peer_control.offered[0].bytes.fetch_add(4096);
  peer_control.offered[0].generation.fetch_add(1);
  peer_control.offers.fetch_add(1);
  both.in.take_offers();
  EXPECT_EQ(both.in.find(0, 0, 1), nullptr) << "longer than the allocation";
}

}  // namespace
}  // namespace tandem::shm
