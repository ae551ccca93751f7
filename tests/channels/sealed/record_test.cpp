#include "sealed/record.hpp"

#include <gtest/gtest.h>

#include "sealed/connection.hpp"
#include "support/pattern.hpp"
#include "support/sealed_parts.hpp"

namespace tandem::sealed {
namespace {

using test::bytes;
using test::of_text;
using test::open;
using test::pattern;
using test::seal;
using test::some_key;

void expect_opens(opener& with, const bytes& record, std::span<const std::byte> text) {
  bytes got;
  ASSERT_TRUE(open(with, record, got));
  EXPECT_TRUE(std::equal(got.begin(), got.end(), text.begin(), text.end()));
}

/// Neither the record nor anything after it opens, and its output is zeroed.
void expect_refused(opener& with, const bytes& record, const bytes& next = {}) {
  bytes got;
  EXPECT_FALSE(open(with, record, got));
  EXPECT_EQ(std::count(got.begin(), got.end(), std::byte{0}),
            static_cast<std::ptrdiff_t>(got.size()));
  if (next.empty()) return;
  EXPECT_FALSE(open(with, next, got));
}

TEST(sealed_record, round_trips_in_any_parts) {
  std::mt19937_64 random(1);
  sealer seals(some_key());
  opener opens(some_key());
  for (int i = 0; i < 300; ++i) {
    const std::size_t most = i % 3 == 0 ? 100 : max_text_bytes;
    const std::size_t length = i == 0 ? max_text_bytes : 1 + random() % most;
    const bytes text = pattern(length, random());
    const auto parts = test::in_parts(text, random);
    cursor from(parts);
    bytes record(length + overhead_bytes);
    seals.seal(from, length, record.data());
    EXPECT_EQ(from.left_bytes(), 0u);
    EXPECT_EQ(opener::text_bytes(record.data()), length);
    bytes into(length);
    const auto rooms = test::in_parts(into, random);
    cursor to(rooms);
    ASSERT_TRUE(opens.open(record, to));
    EXPECT_EQ(to.done_bytes(), length);
    EXPECT_EQ(into, text);
  }
}

TEST(sealed_record, each_flipped_bit_is_refused) {
  const bytes text = pattern(50, 1);
  sealer seals(some_key());
  const bytes record = seal(seals, text), next = seal(seals, text);
  for (std::size_t bit = 8 * length_bytes; bit < 8 * record.size(); ++bit) {
    opener opens(some_key());
    bytes changed = record;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    expect_refused(opens, changed, next);
  }
  opener opens(some_key());
  expect_opens(opens, record, text);
  expect_opens(opens, next, text);
}

/// A changed length moves the position of the tag.
TEST(sealed_record, wrong_length_is_refused) {
  sealer seals(some_key());
  bytes two = seal(seals, pattern(300, 1));
  const bytes second = seal(seals, pattern(300, 2));
  const std::size_t right = two.size();
  two.insert(two.end(), second.begin(), second.end());
  for (std::size_t length = overhead_bytes + 1; length <= two.size(); ++length) {
    opener opens(some_key());
    const bytes cut(two.begin(), two.begin() + static_cast<std::ptrdiff_t>(length));
    bytes got;
    EXPECT_EQ(open(opens, cut, got), length == right) << length;
  }
}

TEST(sealed_record, hostile_lengths_are_refused) {
  const auto text_of = [](std::uint32_t length) {
    std::byte wire[4];
    for (int i = 0; i < 4; ++i) wire[i] = static_cast<std::byte>(length >> (8 * i));
    return opener::text_bytes(wire);
  };
  EXPECT_EQ(text_of(1), 1u);
  EXPECT_EQ(text_of(65536), 65536u);
  for (const std::uint32_t hostile : {0U, 65537U, 0x01000001U, 0x80000001U, 0xffffffffU}) {
    EXPECT_EQ(text_of(hostile), 0u) << hostile;
  }
}

TEST(sealed_record, only_the_next_record_opens) {
  sealer seals(some_key());
  std::vector<bytes> records;
  for (std::uint64_t i = 0; i < 3; ++i) records.push_back(seal(seals, pattern(100, i)));
  opener repeated(some_key()), reordered(some_key()), missing(some_key());
  expect_opens(repeated, records[0], pattern(100, 0));
  expect_refused(repeated, records[0], records[1]);
  expect_refused(reordered, records[1], records[0]);
  expect_opens(missing, records[0], pattern(100, 0));
  expect_refused(missing, records[2], records[1]);
}

TEST(sealed_record, other_key_does_not_open) {
  sealer seals(some_key());
  opener opens(some_key("0123456789abcdef0123456789abcdeF"));
  expect_refused(opens, seal(seals, pattern(100, 1)));
}

TEST(sealed_record, reveals_only_length) {
  const bytes text(4096, std::byte{'A'});
  sealer seals(some_key()), same(some_key()), other(some_key("another key of thirty-two bytes!"));
  const bytes first = seal(seals, text), second = seal(seals, text);
  EXPECT_EQ(seal(same, text), first);
  EXPECT_NE(first, second);
  EXPECT_NE(seal(other, text), first);
  for (const bytes& one : {first, second}) {
    const auto count = std::count(one.begin(), one.end(), std::byte{'A'});
    EXPECT_LT(count, 60);  // 16 are expected of random bytes
    EXPECT_EQ(std::search_n(one.begin(), one.end(), 4, std::byte{'A'}), one.end());
  }
}

TEST(sealed_record, keys_change_on_both_ends_at_once) {
  sealer seals(some_key(), 3);
  opener opens(some_key(), 3), late(some_key(), 4);
  std::vector<bytes> records;
  for (std::uint64_t i = 0; i < 20; ++i) records.push_back(seal(seals, pattern(64, 7)));
  for (const bytes& one : records) expect_opens(opens, one, pattern(64, 7));
  for (std::size_t i = 0; i < 3; ++i) expect_opens(late, records[i], pattern(64, 7));
  expect_refused(late, records[3]);
  // The same text with the same record number under another key gives another record.
  for (std::size_t i = 3; i < records.size(); ++i) EXPECT_NE(records[i], records[i % 3]);
}

TEST(sealed_keys, are_specific_to_direction_and_connection) {
  const secret known = some_key();
  const auto keys_of = [&](std::string_view a, std::string_view b, side which) {
    return derive_keys(known, of_text(a), of_text(b), which);
  };
  const keys here = keys_of("one", "two", side::connector);
  const keys there = keys_of("one", "two", side::listener);
  EXPECT_EQ(here.outgoing.text(), there.incoming.text());
  EXPECT_EQ(here.incoming.text(), there.outgoing.text());
  EXPECT_NE(here.outgoing.text(), here.incoming.text());
  EXPECT_EQ(here.outgoing.bytes().size(), trust::cipher::key_bytes);
  for (const keys& other :
       {keys_of("onE", "two", side::connector), keys_of("one", "twO", side::connector),
        derive_keys(secret(std::string_view("another")), of_text("one"), of_text("two"),
                    side::connector)}) {
    EXPECT_NE(here.outgoing.text(), other.outgoing.text());
    EXPECT_NE(here.incoming.text(), other.incoming.text());
  }
  EXPECT_TRUE(keys().empty());
  EXPECT_FALSE(here.empty());
}

TEST(sealed_keys, reflected_record_does_not_open) {
  const keys here =
      derive_keys(some_key(), of_text("a nonce"), of_text("another"), side::connector);
  sealer seals(here.outgoing);
  opener opens(here.incoming);
  expect_refused(opens, seal(seals, pattern(100, 1)));
}

}  // namespace
}  // namespace tandem::sealed
