#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tandem/detail/crc32c.hpp>
#include <vector>

namespace tandem {
namespace {

std::uint32_t of(const std::string& bytes) {
  return crc32c(bytes.data(), bytes.size());
}

/// RFC 3720, B.4, and the check value of the CRC catalogue.
TEST(crc32c, published_values) {
  EXPECT_EQ(of("123456789"), 0xe3069283U);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43U);
  std::string up(32, '\0');
  for (int i = 0; i < 32; ++i) up[static_cast<std::size_t>(i)] = static_cast<char>(i);
  EXPECT_EQ(of(up), 0x46dd794eU);
  EXPECT_EQ(of(std::string(up.rbegin(), up.rend())), 0x113fdb5cU);
  EXPECT_EQ(of(""), 0u);
}

std::uint32_t bit_by_bit(const unsigned char* p, std::size_t bytes) {
  std::uint32_t crc = ~0U;
  for (std::size_t i = 0; i < bytes; ++i) {
    crc ^= p[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

TEST(crc32c, any_length_and_alignment_in_any_pieces) {
  std::mt19937 random(1);
  std::vector<unsigned char> bytes(300);
  for (auto& b : bytes) b = static_cast<unsigned char>(random());
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (std::size_t length = 0; length < 280; length += 7) {
      const unsigned char* p = bytes.data() + offset;
      const std::uint32_t expected = crc32c(p, length);
      ASSERT_EQ(expected, bit_by_bit(p, length)) << offset << " " << length;
      const std::size_t cut = length / 3;
      ASSERT_EQ(crc32c(p + cut, length - cut, crc32c(p, cut)), expected);
    }
  }
}

TEST(crc32c, every_folding_method) {
#if defined(__x86_64__)
  std::mt19937 random(2);
  std::vector<unsigned char> bytes(4096);
  for (auto& b : bytes) b = static_cast<unsigned char>(random());
  if (!can_fold_128()) GTEST_SKIP() << "this processor has no carry-less multiplication";
  for (std::size_t blocks = 1; blocks <= 15; ++blocks) {
    const unsigned char* p = bytes.data() + blocks;
    EXPECT_EQ(~fold_128(p, blocks, ~0U), bit_by_bit(p, 64 * blocks)) << blocks;
    if (can_fold_512()) {
      EXPECT_EQ(~fold_512(p, blocks, ~0U), bit_by_bit(p, 256 * blocks)) << blocks;
    }
  }
#else
  GTEST_SKIP() << "folding is for x86-64";
#endif
}

TEST(crc32c, long_data) {
  std::vector<unsigned char> bytes(100'003);
  std::mt19937 random(3);
  for (auto& b : bytes) b = static_cast<unsigned char>(random());
  for (const std::size_t length : {511u, 512u, 513u, 769u, 65536u, 100'000u}) {
    for (const std::size_t offset : {0u, 3u}) {
      const unsigned char* p = bytes.data() + offset;
      EXPECT_EQ(crc32c(p, length), bit_by_bit(p, length)) << length;
      EXPECT_EQ(crc32c(p + 700, length - length / 2, crc32c(p, 0)),
                bit_by_bit(p + 700, length - length / 2));
    }
  }
}

}  // namespace
}  // namespace tandem
