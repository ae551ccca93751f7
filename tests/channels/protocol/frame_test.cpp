#include "protocol/frame.hpp"

#include <gtest/gtest.h>

#include <random>
#include <tandem/detail/crc32c.hpp>

namespace tandem::protocol {
namespace {

frame sample() {
  frame f;
  f.type = frame_type::data;
  f.flags = 0x0102;
  f.job_epoch = 0x03040506;
  f.rail_epoch = 0x0708090a;
  f.message_id = 0x0b0c0d0e0f101112;
  f.chunk_index = 0x13141516;
  f.chunk_count = 0x1718191a;
  f.offset = 0x1b1c1d1e1f202122;
  f.payload_bytes = 0x23242526;
  f.flow = 0x2728292a;
  f.payload_crc = 0x2b2c2d2e;
  f.credit = 0x2f303132;
  return f;
}

void sign(wire_frame& wire) {
  put<std::uint32_t>(wire.data() + 60, crc32c(wire.data(), 60));
}

TEST(frame, round_trips_every_field) {
  wire_frame wire;
  encode(sample(), wire);
  std::string why;
  const auto back = decode(wire, why);
  ASSERT_TRUE(back) << why;
  wire_frame again;
  encode(*back, again);
  EXPECT_EQ(wire, again);
  EXPECT_EQ(back->message_id, sample().message_id);
  EXPECT_EQ(back->offset, sample().offset);
  EXPECT_EQ(back->credit, sample().credit);
}

/// The documented layout, so that a change of the format is detected.
TEST(frame, layout_matches_documentation) {
  wire_frame wire;
  encode(sample(), wire);
  const auto byte_at = [&wire](std::size_t i) { return static_cast<int>(wire[i]); };
  EXPECT_EQ(byte_at(0), 'T');
  EXPECT_EQ(byte_at(1), 'N');
  EXPECT_EQ(byte_at(2), 'D');
  EXPECT_EQ(byte_at(3), 'M');
  EXPECT_EQ(byte_at(4), 1);
  EXPECT_EQ(byte_at(5), 5);
  EXPECT_EQ(byte_at(6), 0x02);
  EXPECT_EQ(byte_at(8), 0x06);
  EXPECT_EQ(byte_at(12), 0x0a);
  EXPECT_EQ(byte_at(16), 0x12);
  EXPECT_EQ(byte_at(24), 0x16);
  EXPECT_EQ(byte_at(28), 0x1a);
  EXPECT_EQ(byte_at(32), 0x22);
  EXPECT_EQ(byte_at(40), 0x26);
  EXPECT_EQ(byte_at(44), 0x2a);
  EXPECT_EQ(byte_at(48), 0x2e);
  EXPECT_EQ(byte_at(52), 0x32);
  EXPECT_EQ(byte_at(56), 0);
}

TEST(frame, message_note_uses_the_chunk_field) {
  for (const frame_type type : {frame_type::eager, frame_type::announce, frame_type::refuse}) {
    frame from = sample();
    from.type = type;
    from.payload_bytes = 0;
    from.signature = {0x4142434445464748, 0x494a4b4c};
    wire_frame wire;
    encode(from, wire);
    EXPECT_EQ(static_cast<int>(wire[24]), 0x48);
    EXPECT_EQ(static_cast<int>(wire[31]), 0x41);
    EXPECT_EQ(static_cast<int>(wire[56]), 0x4c);
    std::string why;
    const auto back = decode(wire, why);
    ASSERT_TRUE(back) << why;
    EXPECT_TRUE(back->signature == from.signature);
    EXPECT_EQ(back->chunk_count, 0u);
  }
}

TEST(frame, any_flipped_bit_is_detected) {
  for (std::size_t bit = 0; bit < 8 * frame_bytes; ++bit) {
    wire_frame wire;
    encode(sample(), wire);
    wire[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    std::string why;
    EXPECT_FALSE(decode(wire, why)) << "bit " << bit;
    EXPECT_FALSE(why.empty());
  }
}

TEST(frame, explains_decode_errors) {
  std::string why;
  wire_frame wire;
  encode(sample(), wire);
  wire[4] = std::byte{9};
  sign(wire);
  EXPECT_FALSE(decode(wire, why));
  EXPECT_EQ(why, "a frame of protocol version 9");
  for (const int type : {0, 12, 255}) {
    encode(sample(), wire);
    wire[5] = static_cast<std::byte>(type);
    sign(wire);
    EXPECT_FALSE(decode(wire, why));
    EXPECT_EQ(why, "a frame of unknown type " + std::to_string(type));
  }
  frame loaded;
  loaded.type = frame_type::accept;
  loaded.payload_bytes = 8;
  encode(loaded, wire);
  EXPECT_FALSE(decode(wire, why));
  EXPECT_EQ(why, "a frame of type 3 with 8 payload bytes");
}

TEST(frame, random_bytes_are_refused) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    wire_frame wire;
    for (std::size_t at = 0; at < wire.size(); at += 8)
      put<std::uint64_t>(wire.data() + at, random());
    if (i % 2 == 0) put<std::uint32_t>(wire.data(), frame_magic);
    std::string why;
    EXPECT_FALSE(decode(wire, why));
  }
}

TEST(frame, integers_are_little_endian) {
  std::byte bytes[9] = {};
  put<std::uint64_t>(bytes + 1, 0x0102030405060708U);
  EXPECT_EQ(bytes[1], std::byte{8});
  EXPECT_EQ(bytes[8], std::byte{1});
  EXPECT_EQ(take<std::uint64_t>(bytes + 1), 0x0102030405060708U);
  put<std::int32_t>(bytes, -1);
  EXPECT_EQ(take<std::int32_t>(bytes), -1);
}

}  // namespace
}  // namespace tandem::protocol
