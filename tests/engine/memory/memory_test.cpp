#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem {
namespace {

TEST(view, of_ranges) {
  const std::string text = "abc";
  const const_view of_text(text);
  EXPECT_EQ(of_text.data, text.data());
  EXPECT_EQ(of_text.bytes, 3u);
  EXPECT_EQ(of_text.kind, memory_kind::host);
  std::vector<double> numbers(5);
  const mutable_view of_numbers(numbers);
  EXPECT_EQ(of_numbers.data, numbers.data());
  EXPECT_EQ(of_numbers.bytes, 40u);
  std::array<std::uint16_t, 4> shorts{};
  EXPECT_EQ(mutable_view(shorts).bytes, 8u);
  EXPECT_EQ(mutable_view(std::span(numbers).first(2)).bytes, 16u);
  EXPECT_EQ(const_view().bytes, 0u);
}

/// Read-only ranges give no mutable view; ranges of non-trivial types give no view.
TEST(view, refuses_invalid_arguments) {
  static_assert(!std::is_constructible_v<mutable_view, const std::vector<int>&>);
  static_assert(!std::is_constructible_v<mutable_view, std::span<const int>>);
  static_assert(!std::is_constructible_v<const_view, const std::vector<std::string>&>);
  static_assert(!std::is_constructible_v<const_view, decltype("text")>);
  static_assert(!std::is_constructible_v<const_view, char(&)[5]>);
  static_assert(!std::is_constructible_v<const_view, const char16_t(&)[5]>);
  static_assert(std::is_constructible_v<const_view, std::string_view>);
  static_assert(std::is_constructible_v<const_view, const std::array<char, 5>&>);
  static_assert(std::is_constructible_v<const_view, const unsigned char(&)[5]>);
  static_assert(std::is_constructible_v<mutable_view, char(&)[5]>);
  static_assert(std::is_convertible_v<mutable_view, const_view>);
  static_assert(!std::is_convertible_v<const_view, mutable_view>);
}

TEST(view, parts_keep_kind_and_device) {
  std::array<std::byte, 100> bytes{};
  const mutable_view all(bytes.data(), bytes.size(), memory_kind::cuda, 3);
  const mutable_view part = all.part(10, 20);
  EXPECT_EQ(part.data, bytes.data() + 10);
  EXPECT_EQ(part.bytes, 20u);
  EXPECT_EQ(part.kind, memory_kind::cuda);
  EXPECT_EQ(part.device, 3);
  const const_view read_only = const_view(all).part(100, 0);
  EXPECT_EQ(read_only.data, bytes.data() + 100);
  EXPECT_EQ(read_only.device, 3);
}

TEST(buffer, is_zeroed_and_aligned) {
  for (const std::size_t bytes : {1u, 63u, 64u, 65u, 100'000u}) {
    const buffer owned(bytes);
    EXPECT_EQ(owned.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(owned.data()) % 64, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(owned.data()[i], std::byte{0});
    EXPECT_EQ(owned.view().bytes, bytes);
  }
}

TEST(buffer, moves) {
  buffer first(16);
  first.as<std::uint32_t>()[3] = 7;
  const std::byte* where = first.data();
  buffer second = std::move(first);
  EXPECT_EQ(second.data(), where);
  EXPECT_EQ(second.as<std::uint32_t>().size(), 4u);
  EXPECT_EQ(second.as<std::uint32_t>()[3], 7u);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT: the moved-from state is specified
  EXPECT_EQ(first.size(), 0u);
  EXPECT_EQ(first.view().bytes, 0u);
  buffer third(100);
  third = std::move(second);
  EXPECT_EQ(third.data(), where);
  EXPECT_EQ(third.size(), 16u);
  EXPECT_EQ(second.data(), nullptr);  // NOLINT
  EXPECT_EQ(second.size(), 0u);
  buffer& same = third;
  third = std::move(same);
  EXPECT_EQ(third.data(), where);
  EXPECT_EQ(third.size(), 16u);
}

TEST(buffer, of_no_bytes) {
  const buffer none(0);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.view().bytes, 0u);
  EXPECT_EQ(buffer().size(), 0u);
}

TEST(buffer, too_long) {
  EXPECT_THROW(buffer(~std::size_t{0}), std::bad_alloc);
}

TEST(buffer, of_unavailable_kind) {
  try {
    const buffer device(64, memory_kind::hip);
    FAIL() << "allocated";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::unsupported_memory);
    EXPECT_NE(std::string(e.what()).find("hip"), std::string::npos);
  }
}

TEST(memory_kind, names) {
  EXPECT_EQ(name(memory_kind::host), "host");
  EXPECT_EQ(name(memory_kind::cuda), "cuda");
  EXPECT_EQ(name(memory_kind::hip), "hip");
}

}  // namespace
}  // namespace tandem
