#include <gtest/gtest.h>

#include <cstring>
#include <tandem/detail/copy.hpp>
#include <vector>

#include "support/pattern.hpp"

namespace tandem::test {
namespace {

using detail::copy_part, detail::streamed_bytes;

/// Every requested byte is copied, and no other.
void expect_copied(std::size_t bytes, std::size_t whole_bytes, std::size_t from_at,
                   std::size_t to_at) {
  constexpr std::size_t margin = 200;
  const std::vector<std::byte> made = pattern(bytes, 7);
  std::vector<std::byte> from(bytes + margin, std::byte{1});
  std::vector<std::byte> to(bytes + margin, std::byte{0xee});
  std::copy(made.begin(), made.end(), from.begin() + static_cast<std::ptrdiff_t>(from_at));
  copy_part(to.data() + to_at, from.data() + from_at, bytes, whole_bytes);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool inside = i >= to_at && i - to_at < bytes;
    const std::byte expected = inside ? made[i - to_at] : std::byte{0xee};
    ASSERT_EQ(to[i], expected) << "byte " << i << " of " << bytes << " from " << from_at << " to "
                               << to_at;
  }
}

TEST(copy_part, copies_any_length_to_any_offset) {
  for (const std::size_t total : {std::size_t{1}, streamed_bytes}) {
    for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 129, 1000, 4096}) {
      for (const std::size_t at : {0, 1, 15, 16, 48, 63, 64}) {
        expect_copied(bytes, total, 0, at);
        expect_copied(bytes, total, at, 64 - at);
      }
    }
  }
}

TEST(copy_part, copies_with_streaming_stores) {
  expect_copied(streamed_bytes + 13, streamed_bytes + 13, 3, 5);
}

}  // namespace
}  // namespace tandem::test
