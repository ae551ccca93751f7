#include "fabric/proof.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tandem::transport {
namespace {

const secret key(std::string_view("0123456789abcdef0123456789abcdef"));
const std::array steps{step::listener, step::connector, step::accepted, step::crossed};

wire_hello some_hello(std::uint32_t rail, std::uint8_t once) {
  hello h;
  h.from = 0;
  h.to = 1;
  h.size = 2;
  h.limits = {1, 2, 3, 4};
  h.keyed = true;
  h.rail = rail;
  h.once.fill(std::byte{once});
  wire_hello wire;
  encode(h, wire);
  return wire;
}

TEST(proof, is_valid_for_its_step_key_and_hellos_only) {
  const wire_hello a = some_hello(0, 1), b = some_hello(0, 2);
  const secret other(std::string_view("0123456789abcdef0123456789abcdeF"));
  for (const step one : steps) {
    const proof given = prove(one, key, a, b);
    for (const step two : steps) EXPECT_EQ(is_proof(given, two, key, a, b), one == two);
    EXPECT_FALSE(is_proof(given, one, other, a, b));
    EXPECT_FALSE(is_proof(given, one, secret(), a, b));
    EXPECT_FALSE(is_proof(given, one, key, b, a));
    EXPECT_FALSE(is_proof(given, one, key, a, some_hello(0, 3)));
    EXPECT_FALSE(is_proof(given, one, key, some_hello(1, 1), b));
  }
}

TEST(proof, covers_every_bit_of_both_hellos_and_of_itself) {
  const wire_hello a = some_hello(0, 1), b = some_hello(0, 2);
  const proof given = prove(step::listener, key, a, b);
  for (std::size_t bit = 0; bit < hello_bytes * 8; ++bit) {
    wire_hello changed = a;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(is_proof(given, step::listener, key, changed, b)) << bit;
    changed = b;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(is_proof(given, step::listener, key, a, changed)) << bit;
  }
  for (std::size_t bit = 0; bit < given.size() * 8; ++bit) {
    proof changed = given;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(is_proof(changed, step::listener, key, a, b)) << bit;
  }
}

TEST(proof, encryption_needs_a_key) {
  settings s;
  EXPECT_NO_THROW(check_encryption(s, secret()));
  s.encrypt = true;
  EXPECT_NO_THROW(check_encryption(s, key));
  try {
    check_encryption(s, secret());
    FAIL() << "no error";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_NE(std::string(e.what()).find("TANDEM_SECRET_FILE"), std::string::npos) << e.what();
  }
}

TEST(proof, pairs_have_their_own_key) {
  settings s;
  EXPECT_TRUE(pair_key(s).empty());
  s.job_secret = key;
  const secret made = pair_key(s);
  EXPECT_EQ(made.bytes().size(), 32u);
  EXPECT_NE(made.text(), key.text());
  EXPECT_EQ(made.text(), pair_key(s).text());
  s.job_secret = secret(std::string_view("short"));
  EXPECT_THROW(pair_key(s), error);
}

}  // namespace
}  // namespace tandem::transport
