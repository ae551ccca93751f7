#include <gtest/gtest.h>

#include "devices/reference.hpp"

namespace tandem::devices {
namespace {

std::optional<control_message> there_and_back(const control_message& from, std::string& why) {
  std::array<std::byte, control_message_bytes> bytes{};
  encode(from, bytes);
  EXPECT_TRUE(is_control_message(bytes));
  return decode_control_message(bytes, why);
}

TEST(control_message_test, allocation_round_trips) {
  control_message said{.what = control_message::type::described, .id = 7};
  said.allocation.id = 7;
  said.allocation.kind = memory_kind::hip;
  said.allocation.uuid = "00112233445566778899aabbccddeeff";
  said.allocation.base = 0x7f0000001000;
  said.allocation.bytes = 1ULL << 40;
  for (std::size_t i = 0; i < said.allocation.handle.size(); ++i) {
    said.allocation.handle[i] = static_cast<std::byte>(i + 1);
  }
  std::string why;
  const auto came = there_and_back(said, why);
  ASSERT_TRUE(came) << why;
  EXPECT_EQ(came->allocation.id, 7U);
  EXPECT_EQ(came->allocation.kind, memory_kind::hip);
  EXPECT_EQ(came->allocation.uuid, said.allocation.uuid);
  EXPECT_EQ(came->allocation.base, said.allocation.base);
  EXPECT_EQ(came->allocation.bytes, said.allocation.bytes);
  EXPECT_EQ(came->allocation.handle, said.allocation.handle);
}

TEST(control_message_test, long_reason_is_truncated) {
  control_message said{.what = control_message::type::refused, .id = 9};
  said.why = std::string(1000, 'x');
  std::string why;
  const auto came = there_and_back(said, why);
  ASSERT_TRUE(came) << why;
  EXPECT_EQ(came->id, 9U);
  EXPECT_EQ(came->why, std::string(112, 'x'));
}

TEST(control_message_test, serials_round_trip) {
  control_message said;
  said.count = static_cast<std::uint16_t>(said.serials.size());
  for (std::uint32_t i = 0; i < said.count; ++i) said.serials[i] = ~i;
  std::string why;
  const auto came = there_and_back(said, why);
  ASSERT_TRUE(came) << why;
  EXPECT_EQ(came->count, said.count);
  EXPECT_EQ(came->serials, said.serials);
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
  const reference came = decode_reference(bytes.data());
  EXPECT_EQ(came.serial, 5U);
  EXPECT_EQ(came.at.allocation, 0x10003U);
  EXPECT_EQ(came.at.offset, 1ULL << 33);
}

}  // namespace
}  // namespace tandem::devices
