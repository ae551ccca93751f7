#include "devices/reference.hpp"

#include <gtest/gtest.h>

namespace tandem::devices {
namespace {

std::optional<control_message> round_trip(const control_message& from, std::string& why) {
  std::array<std::byte, control_message_bytes> bytes{};
  encode(from, bytes);
  EXPECT_TRUE(is_control_message(bytes));
  return decode_control_message(bytes, why);
}

TEST(control_message_test, allocation_round_trips) {
  control_message sent{.what = control_message::type::described, .id = 7};
  sent.allocation.id = 7;
  sent.allocation.kind = memory_kind::hip;
  sent.allocation.uuid = "00112233445566778899aabbccddeeff";
  sent.allocation.base = 0x7f0000001000;
  sent.allocation.bytes = 1ULL << 40;
  for (std::size_t i = 0; i < sent.allocation.handle.size(); ++i) {
    sent.allocation.handle[i] = static_cast<std::byte>(i + 1);
  }
  std::string why;
  const auto received = round_trip(sent, why);
  ASSERT_TRUE(received) << why;
  EXPECT_EQ(received->allocation.id, 7U);
  EXPECT_EQ(received->allocation.kind, memory_kind::hip);
  EXPECT_EQ(received->allocation.uuid, sent.allocation.uuid);
  EXPECT_EQ(received->allocation.base, sent.allocation.base);
  EXPECT_EQ(received->allocation.bytes, sent.allocation.bytes);
  EXPECT_EQ(received->allocation.handle, sent.allocation.handle);
}

TEST(control_message_test, pages_round_trip) {
  control_message sent{.what = control_message::type::described, .id = 7};
  sent.allocation.page_count = max_described_pages;
  std::string why;
  auto received = round_trip(sent, why);
  ASSERT_TRUE(received) << why;
  EXPECT_EQ(received->allocation.page_count, max_described_pages);
  ++sent.allocation.page_count;
  EXPECT_FALSE(round_trip(sent, why));
  EXPECT_NE(why.find("count 257"), std::string::npos) << why;

  sent = {.what = control_message::type::pages, .id = 7};
  EXPECT_FALSE(round_trip(sent, why)) << "none";
  for (std::uint32_t i = 0; i < control_message::max_pages; ++i) {
    sent.allocation.pages.push_back({~i, std::uint64_t{i + 1} << 40});
  }
  received = round_trip(sent, why);
  ASSERT_TRUE(received) << why;
  EXPECT_EQ(received->id, 7U);
  ASSERT_EQ(received->allocation.pages.size(), control_message::max_pages);
  for (std::uint32_t i = 0; i < control_message::max_pages; ++i) {
    EXPECT_EQ(received->allocation.pages[i].descriptor, ~i);
    EXPECT_EQ(received->allocation.pages[i].bytes, std::uint64_t{i + 1} << 40);
  }
}

TEST(control_message_test, long_reason_is_truncated) {
  control_message sent{.what = control_message::type::refused, .id = 9};
  sent.why = std::string(1000, 'x');
  std::string why;
  const auto received = round_trip(sent, why);
  ASSERT_TRUE(received) << why;
  EXPECT_EQ(received->id, 9U);
  EXPECT_EQ(received->why, std::string(112, 'x'));
}

TEST(control_message_test, serials_round_trip) {
  control_message sent;
  sent.count = static_cast<std::uint16_t>(sent.serials.size());
  for (std::uint32_t i = 0; i < sent.count; ++i) sent.serials[i] = ~i;
  std::string why;
  const auto received = round_trip(sent, why);
  ASSERT_TRUE(received) << why;
  EXPECT_EQ(received->count, sent.count);
  EXPECT_EQ(received->serials, sent.serials);
}

TEST(control_message_test, other_messages_are_distinguished) {
  std::array<std::byte, control_message_bytes> bytes{};
  EXPECT_FALSE(is_control_message(bytes));
  encode(control_message{.what = control_message::type::opened, .id = 1}, bytes);
  EXPECT_FALSE(is_control_message(std::span(bytes).first(64)));
  std::string why;
  bytes[9] ^= std::byte{1};
  EXPECT_FALSE(decode_control_message(bytes, why));
  EXPECT_EQ(why, "wrong checksum of a control message");
  encode(control_message{.what = static_cast<control_message::type>(9)}, bytes);
  EXPECT_FALSE(decode_control_message(bytes, why));
  EXPECT_EQ(why, "a control message of type 9, kind 0 and count 0");
}

TEST(reference_test, round_trips) {
  std::array<std::byte, reference_bytes> bytes{};
  encode(reference{5, {0x10003, 1ULL << 33}}, bytes.data());
  const reference received = decode_reference(bytes.data());
  EXPECT_EQ(received.serial, 5U);
  EXPECT_EQ(received.at.allocation, 0x10003U);
  EXPECT_EQ(received.at.offset, 1ULL << 33);
}

}  // namespace
}  // namespace tandem::devices
