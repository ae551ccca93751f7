// The connection information that both ends of a lane exchange: decoded, or refused with a reason.

#include "transports/rails/verbs/qp_info.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <tandem/detail/crc32c.hpp>
#include <tandem/error.hpp>
#include <vector>

#include "protocol/frame.hpp"

namespace tandem::verbs {
namespace {

qp_info some_qp_info() {
  qp_info made;
  for (std::size_t i = 0; i < made.gid.size(); ++i) made.gid[i] = static_cast<std::byte>(i + 1);
  made.lid = 0x1234;
  made.mtu_bytes = 2048;
  made.data_pair = 0x17;
  made.data_psn = 0xffffff;
  made.control_pair = 0x18;
  made.control_psn = 0xabcdef;
  made.chunks_at = 0x7f00'1234'5000;
  made.key = 0xdeadbeef;
  made.has = {100, 2048, 3, 65536, 7};
  return made;
}

std::string refusal(const wire_qp_info& bytes) {
  try {
    decode(bytes);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::protocol_violation) << e.what();
    return e.what();
  }
  return "not refused";
}

TEST(QpInfo, RoundTrips) {
  const qp_info sent = some_qp_info();
  const qp_info got = decode(encode(sent));
  EXPECT_EQ(got.gid, sent.gid);
  EXPECT_EQ(got.lid, sent.lid);
  EXPECT_EQ(got.mtu_bytes, sent.mtu_bytes);
  EXPECT_EQ(got.data_pair, sent.data_pair);
  EXPECT_EQ(got.data_psn, sent.data_psn);
  EXPECT_EQ(got.control_pair, sent.control_pair);
  EXPECT_EQ(got.control_psn, sent.control_psn);
  EXPECT_EQ(got.chunks_at, sent.chunks_at);
  EXPECT_EQ(got.key, sent.key);
  EXPECT_EQ(got.has.records, sent.has.records);
  EXPECT_EQ(got.has.record_bytes, sent.has.record_bytes);
  EXPECT_EQ(got.has.chunks, sent.has.chunks);
  EXPECT_EQ(got.has.chunk_bytes, sent.has.chunk_bytes);
  EXPECT_EQ(got.has.updates, sent.has.updates);
}

TEST(QpInfo, OutOfBoundsIsRefusedWithReason) {
  struct row {
    std::function<void(qp_info&)> corrupt;
    std::string expected;
  };
  const std::string count = "number of slots out of range";
  const std::string length = "slot length out of range";
  const std::string pairs = "invalid queue pair numbers";
  const std::string mtu = "invalid MTU";
  const std::vector<row> rows{
      {[](qp_info& c) { c.has.records = 1; }, count},
      {[](qp_info& c) { c.has.records = 0xffff'ffff; }, count},
      {[](qp_info& c) { c.has.chunks = 0; }, count},
      {[](qp_info& c) { c.has.chunks = 1 << 15; }, count},
      {[](qp_info& c) { c.has.updates = min_updates - 1; }, count},
      {[](qp_info& c) { c.has.updates = 0xffff'ffff; }, count},
      {[](qp_info& c) { c.has.record_bytes = 15; }, length},
      {[](qp_info& c) { c.has.record_bytes = 0xffff'ffff; }, length},
      {[](qp_info& c) { c.has.chunk_bytes = 0; }, length},
      {[](qp_info& c) { c.has.chunk_bytes = 0x8000'0000; }, length},
      {[](qp_info& c) { c.chunks_at = 0; }, "invalid slot address"},
      {[](qp_info& c) { c.chunks_at = ~std::uint64_t{0} - 10; }, "invalid slot address"},
      {[](qp_info& c) { c.data_pair = 1 << 24; }, pairs},
      {[](qp_info& c) { c.control_pair = 1 << 24; }, pairs},
      {[](qp_info& c) { c.control_pair = c.data_pair; }, pairs},
      {[](qp_info& c) { c.data_psn = 1 << 24; }, pairs},
      {[](qp_info& c) { c.control_psn = 0xffff'ffff; }, pairs},
      {[](qp_info& c) { c.mtu_bytes = 0; }, mtu},
      {[](qp_info& c) { c.mtu_bytes = 128; }, mtu},
      {[](qp_info& c) { c.mtu_bytes = 1500; }, mtu},
      {[](qp_info& c) { c.mtu_bytes = 8192; }, mtu},
  };
  for (const row& r : rows) {
    qp_info bad = some_qp_info();
    r.corrupt(bad);
    EXPECT_NE(refusal(encode(bad)).find("the peer's queue pairs: " + r.expected), std::string::npos)
        << "row " << &r - rows.data() << ": " << refusal(encode(bad));
  }
}

TEST(QpInfo, OtherVersionErrorNamesBoth) {
  wire_qp_info bytes = encode(some_qp_info());
  protocol::put(bytes.data() + 8, std::uint32_t{7});
  try {
    decode(bytes);
    FAIL() << "not refused";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::version_mismatch);
    EXPECT_NE(std::string(e.what()).find("version 7, this one 1"), std::string::npos) << e.what();
  }
}

TEST(QpInfo, AnyFlippedBitIsRefused) {
  const wire_qp_info good = encode(some_qp_info());
  for (std::size_t bit = 0; bit < 8 * qp_info_bytes; ++bit) {
    wire_qp_info bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW(decode(bad), error) << "bit " << bit;
  }
}

/// With a valid checksum, every value is in bounds or refused.
TEST(QpInfo, RandomBytesAreInBoundsOrRefused) {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    wire_qp_info bytes = encode(some_qp_info());
    for (int n = 0; n < 4; ++n) {
      const std::size_t at = 12 + 4 * (random() % 18);
      protocol::put(bytes.data() + at, random() % 2 == 0 ? random() : random() % 5000);
    }
    protocol::put(bytes.data() + 124, crc32c(bytes.data(), 124));
    try {
      const qp_info got = decode(bytes);
      ASSERT_GE(got.has.updates, min_updates);
      ASSERT_TRUE(got.has.records >= 2 && got.has.records <= 1 << 14);
      ASSERT_TRUE(got.has.record_bytes >= 1024 && got.has.chunk_bytes >= 1024);
      ASSERT_TRUE(got.data_pair >> 24 == 0 && got.control_pair >> 24 == 0);
    } catch (const error&) {
      // refused
    }
  }
}

}  // namespace
}  // namespace tandem::verbs
