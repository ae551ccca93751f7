// Unique ids: what they contain, and arbitrary bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <tandem/error.hpp>

#include "arguments.hpp"
#include "own_ids.hpp"
#include "support/environment_variable.hpp"

namespace tandem::test {
namespace {

using nccl_abi::decode;
using nccl_abi::encode;
using nccl_abi::meeting_point;
using nccl_abi::own_ids;
using nccl_abi::unique_id;

meeting_point some_point(const char* address) {
  meeting_point made;
  made.address = boost::asio::ip::make_address(address);
  made.port = 4660;
  made.job.fill(std::byte{7});
  made.key.fill(std::byte{9});
  return made;
}

std::string refusal(const unique_id& id) {
  try {
    decode(id);
  } catch (const error& why) {
    return why.what();
  }
  return {};
}

TEST(UniqueId, HasAnAddressOfBothFamilies) {
  for (const char* const address : {"127.0.0.1", "2001:db8::17", "::1"}) {
    const meeting_point point = some_point(address), found = decode(encode(point));
    EXPECT_EQ(found.address, point.address);
    EXPECT_EQ(found.port, point.port);
    EXPECT_EQ(found.job_text(), std::string("07070707070707070707070707070707"));
    EXPECT_EQ(found.key, point.key);
  }
}

TEST(UniqueId, AnotherLibrarysIsRefused) {
  unique_id foreign{};
  EXPECT_NE(refusal(foreign).find("was not made by Tandem"), std::string::npos);
  std::memset(foreign.internal, 0x5a, sizeof foreign.internal);
  EXPECT_NE(refusal(foreign).find("was not made by Tandem"), std::string::npos);
}

TEST(UniqueId, AnotherLayoutIsRefused) {
  unique_id newer = encode(some_point("127.0.0.1"));
  newer.internal[8] = 2;
  EXPECT_NE(refusal(newer).find("layout 2"), std::string::npos) << refusal(newer);
}

TEST(UniqueId, EveryFlippedBitIsFound) {
  const unique_id whole = encode(some_point("2001:db8::17"));
  constexpr std::size_t used_bytes = 80;
  for (std::size_t bit = 0; bit < used_bytes * 8; ++bit) {
    unique_id damaged = whole;
    damaged.internal[bit / 8] = static_cast<char>(damaged.internal[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(refusal(damaged), "") << bit;
  }
}

TEST(UniqueId, ArbitraryBytesAreRefused) {
  std::mt19937 random(29);
  for (int round = 0; round < 20000; ++round) {
    unique_id id;
    for (char& each : id.internal) each = static_cast<char>(random());
    if (round % 2 == 1) std::memcpy(id.internal, "tandemid\x01\x04", 10);
    EXPECT_NE(refusal(id), "");
  }
}

TEST(UniqueId, EachHasItsOwnPortJobAndKey) {
  const environment_variable loopback("NCCL_SOCKET_IFNAME", "=lo");
  std::set<std::uint16_t> ports;
  std::set<std::string> jobs, keys;
  for (int i = 0; i < 8; ++i) {
    const meeting_point made = decode(own_ids::of_process().make({}));
    EXPECT_TRUE(made.address.is_loopback());
    ports.insert(made.port);
    jobs.insert(made.job_text());
    keys.insert(made.key_text());
    EXPECT_TRUE(i % 2 == 1 || own_ids::of_process().take(made));
    EXPECT_FALSE(i % 2 == 0 && own_ids::of_process().take(made));
  }
  EXPECT_GE(ports.size(), 4);  // a port that was given back may be used again
  EXPECT_EQ(jobs.size(), 8);
  EXPECT_EQ(keys.size(), 8);
}

TEST(UniqueId, AnInterfaceThatIsNotThereIsNamed) {
  const environment_variable no_such("NCCL_SOCKET_IFNAME", "nosuch");
  EXPECT_THROW(
      {
        try {
          own_ids::of_process().make({});
        } catch (const error& why) {
          EXPECT_NE(std::string(why.what()).find("NCCL_SOCKET_IFNAME=nosuch"), std::string::npos);
          throw;
        }
      },
      error);
}

template <class Bits>
double value(nccl_abi::type of, Bits bits) {
  std::byte element[8]{};
  std::memcpy(element, &bits, sizeof bits);
  return nccl_abi::value_of(of, element);
}

TEST(Element, ValuesOfEveryType) {
  EXPECT_EQ(value(nccl_abi::int8, std::int8_t{-3}), -3);
  EXPECT_EQ(value(nccl_abi::uint8, std::uint8_t{253}), 253);
  EXPECT_EQ(value(nccl_abi::int32, -70000), -70000);
  EXPECT_EQ(value(nccl_abi::uint32, 4000000000U), 4e9);
  EXPECT_EQ(value(nccl_abi::int64, std::int64_t{-1} << 40), -1099511627776.0);
  EXPECT_EQ(value(nccl_abi::uint64, std::uint64_t{1} << 63), 9223372036854775808.0);
  EXPECT_EQ(value(nccl_abi::float32, 0.1F), static_cast<double>(0.1F));
  EXPECT_EQ(value(nccl_abi::float64, 0.1), 0.1);
  // IEEE 754 binary16: 1/3, the smallest subnormal, the largest; bfloat16: 1/3; OCP FP8.
  EXPECT_EQ(value(nccl_abi::float16, std::uint16_t{0x3555}), 0.333251953125);
  EXPECT_EQ(value(nccl_abi::float16, std::uint16_t{0x8001}), -0x1p-24);
  EXPECT_EQ(value(nccl_abi::float16, std::uint16_t{0x7bff}), 65504);
  EXPECT_EQ(value(nccl_abi::bfloat16, std::uint16_t{0x3eab}), 0.333984375);
  EXPECT_EQ(value(nccl_abi::float8_e4m3, std::uint8_t{0x7e}), 448);
  EXPECT_EQ(value(nccl_abi::float8_e5m2, std::uint8_t{0x7b}), 57344);
}

}  // namespace
}  // namespace tandem::test
