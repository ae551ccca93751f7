#include "fabric/hello.hpp"

#include <gtest/gtest.h>

#include <random>
#include <tandem/detail/crc32c.hpp>

#include "protocol/frame.hpp"

namespace tandem::transport {
namespace {

hello rank_hello(int from, int to, int size = 4) {
  hello h;
  h.job = job_number("job");
  h.from = from;
  h.to = to;
  h.size = size;
  h.limits = {1, protocol::min_chunk_bytes, 3, 4};
  return h;
}

std::span<const std::byte> first(const wire_hello& wire, std::size_t bytes) {
  return std::span(wire).first(bytes);
}

TEST(hello, round_trips_every_field) {
  hello sent = rank_hello(3, 1);
  sent.answer = handshake_status::crossed;
  sent.keyed = true;
  sent.sealed = true;
  sent.once[0] = std::byte{1};
  sent.once[nonce_bytes - 1] = std::byte{2};
  sent.rail = 5;
  sent.epoch = 6;
  wire_hello wire;
  encode(sent, wire);
  hello got;
  ASSERT_EQ(decode(wire, got), decode_status::complete);
  EXPECT_EQ(got.version, 1u);
  EXPECT_EQ(got.answer, handshake_status::crossed);
  EXPECT_EQ(got.job, sent.job);
  EXPECT_EQ(got.from, 3);
  EXPECT_EQ(got.to, 1);
  EXPECT_EQ(got.size, 4);
  EXPECT_EQ(got.limits.eager_bytes, 1u);
  EXPECT_EQ(got.limits.max_flows, 4u);
  EXPECT_TRUE(got.keyed);
  EXPECT_TRUE(got.sealed);
  EXPECT_EQ(got.once, sent.once);
  EXPECT_EQ(got.rail, 5u);
  EXPECT_EQ(got.epoch, 6u);
}

TEST(hello, is_decoded_incrementally) {
  wire_hello wire;
  encode(rank_hello(0, 1), wire);
  hello got;
  for (std::size_t n = 1; n < hello_bytes; ++n) {
    EXPECT_EQ(decode(first(wire, n), got), decode_status::incomplete) << n;
  }
  EXPECT_EQ(decode(wire, got), decode_status::complete);
}

TEST(hello, of_another_program_is_detected_at_once) {
  const std::string http = "G";
  hello got;
  EXPECT_EQ(decode(std::as_bytes(std::span(http)), got), decode_status::other_program);
  const std::string line = "GET /\r\n";
  EXPECT_EQ(excerpt(std::as_bytes(std::span(line))), "'GET /\\x0d\\x0a'");
}

/// The first sixteen bytes identify the version, whatever follows.
TEST(hello, of_another_version_names_it) {
  hello other = rank_hello(0, 1);
  other.version = 12;
  wire_hello wire;
  encode(other, wire);
  hello got;
  EXPECT_EQ(decode(first(wire, 15), got), decode_status::incomplete);
  EXPECT_EQ(decode(first(wire, 16), got), decode_status::other_version);
  EXPECT_EQ(got.version, 12u);
}

TEST(hello, damage_is_detected) {
  for (std::size_t bit = 16 * 8; bit < hello_bytes * 8; ++bit) {
    wire_hello wire;
    encode(rank_hello(0, 1), wire);
    wire[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    hello got;
    EXPECT_EQ(decode(wire, got), decode_status::damaged) << "bit " << bit;
  }
}

TEST(hello, invalid_limits_are_damage) {
  constexpr std::uint32_t min_bytes = protocol::min_chunk_bytes;
  for (const protocol::limits limits :
       {protocol::limits{1, 0, 3, 4}, protocol::limits{1, 1, 3, 4},
        protocol::limits{1, min_bytes - 1, 3, 4}, protocol::limits{1, min_bytes, 3, 0},
        protocol::limits{1, min_bytes, 3, protocol::max_supported_flows + 1}}) {
    hello h = rank_hello(0, 1);
    h.limits = limits;
    wire_hello wire;
    encode(h, wire);
    hello got;
    EXPECT_EQ(decode(wire, got), decode_status::damaged);
  }
}

/// The offered limits are valid for any settings.
TEST(hello, offers_are_within_limits) {
  settings tiny;
  tiny.eager_bytes = 0;
  tiny.chunk_bytes = 1;
  hello h = rank_hello(0, 1);
  h.limits = protocol::offered(tiny);
  EXPECT_EQ(h.limits.chunk_bytes, protocol::min_chunk_bytes);
  wire_hello wire;
  encode(h, wire);
  hello got;
  EXPECT_EQ(decode(wire, got), decode_status::complete);
}

TEST(hello, status_codes) {
  const hello mine = rank_hello(1, -1);
  EXPECT_EQ(validate_hello(rank_hello(0, 1), mine), handshake_status::accepted);
  EXPECT_EQ(validate_hello(rank_hello(0, 2), mine), handshake_status::wrong_rank);
  EXPECT_EQ(validate_hello(rank_hello(1, 1), mine), handshake_status::wrong_rank);
  EXPECT_EQ(validate_hello(rank_hello(4, 1), mine), handshake_status::wrong_rank);
  EXPECT_EQ(validate_hello(rank_hello(-1, 1), mine), handshake_status::wrong_rank);
  EXPECT_EQ(validate_hello(rank_hello(0, 1, 5), mine), handshake_status::wrong_job);
  EXPECT_EQ(validate_hello(hello{}, mine), handshake_status::wrong_job);
  hello other_job = rank_hello(0, 1);
  other_job.job = job_number("another");
  EXPECT_EQ(validate_hello(other_job, mine), handshake_status::wrong_job);
  hello other_version = rank_hello(0, 1);
  other_version.version = 2;
  EXPECT_EQ(validate_hello(other_version, mine), handshake_status::wrong_version);
  EXPECT_EQ(validate_hello(hello{}, hello{}), handshake_status::accepted);
  hello keyed = rank_hello(0, 1);
  keyed.keyed = true;
  EXPECT_EQ(validate_hello(keyed, mine), handshake_status::not_trusted);
  hello local_keyed = mine;
  local_keyed.keyed = true;
  EXPECT_EQ(validate_hello(rank_hello(0, 1), local_keyed), handshake_status::not_trusted);
  EXPECT_EQ(validate_hello(keyed, local_keyed), handshake_status::accepted);
  hello sealed = keyed;
  sealed.sealed = true;
  hello local_sealed = local_keyed;
  local_sealed.sealed = true;
  EXPECT_EQ(validate_hello(sealed, local_keyed), handshake_status::not_sealed);
  EXPECT_EQ(validate_hello(keyed, local_sealed), handshake_status::not_sealed);
  EXPECT_EQ(validate_hello(sealed, local_sealed), handshake_status::accepted);
}

TEST(hello, flags_are_distinct) {
  for (const bool keyed : {false, true}) {
    for (const bool sealed : {false, true}) {
      hello sent = rank_hello(0, 1);
      sent.keyed = keyed;
      sent.sealed = sealed;
      wire_hello wire;
      encode(sent, wire);
      hello got;
      ASSERT_EQ(decode(wire, got), decode_status::complete);
      EXPECT_EQ(got.keyed, keyed);
      EXPECT_EQ(got.sealed, sealed);
    }
  }
}

TEST(hello, refusals_give_advice) {
  const hello mine = rank_hello(0, 1);
  const auto text_of = [&mine](handshake_status v) {
    hello answer = rank_hello(1, 0);
    answer.answer = v;
    answer.version = v == handshake_status::wrong_version ? 2 : 1;
    return refusal(answer, mine, "127.0.0.1:5");
  };
  EXPECT_EQ(text_of(handshake_status::wrong_version).code(), errc::version_mismatch);
  EXPECT_NE(std::string(text_of(handshake_status::wrong_version).what())
                .find("version 2, this program 1"),
            std::string::npos);
  EXPECT_EQ(text_of(handshake_status::wrong_job).code(), errc::job_mismatch);
  EXPECT_EQ(text_of(handshake_status::wrong_rank).code(), errc::rank_taken);
  EXPECT_EQ(text_of(handshake_status::not_trusted).code(), errc::not_trusted);
  EXPECT_EQ(text_of(handshake_status::not_sealed).code(), errc::bad_option);
  EXPECT_EQ(text_of(static_cast<handshake_status>(99)).code(), errc::protocol_violation);
}

TEST(hello, random_bytes_are_safe) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    wire_hello wire;
    encode(rank_hello(0, 1), wire);
    for (int k = 0; k < 4; ++k) wire[random() % hello_bytes] = static_cast<std::byte>(random());
    hello got;
    const decode_status what = decode(first(wire, 1 + random() % hello_bytes), got);
    EXPECT_LE(what, decode_status::damaged);
  }
}

TEST(hello, job_numbers_are_hashed) {
  EXPECT_NE(job_number("a"), job_number("b"));
  EXPECT_EQ(job_number(""), 0xcbf29ce484222325U);
  EXPECT_EQ(job_number("a"), 0xaf63dc4c8601ec8cU);  // FNV-1a, published
}

}  // namespace
}  // namespace tandem::transport
