#include "perf/terms.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tandem::perf {

namespace {

/// Bit layout of a floating-point type without a native C++ type.
struct layout {
  int mantissa_bits, exponent_bias;
};
constexpr layout float16{10, 15}, bfloat16{7, 127}, e4m3{3, 7}, e5m2{2, 15};

/// @pre value < 2^(mantissa_bits + 1), below which all whole numbers are exact
std::uint32_t encode(std::uint32_t value, const layout& as) {
  if (value == 0) return 0;
  const int exponent = static_cast<int>(std::bit_width(value)) - 1;
  const std::uint32_t mantissa = (value << as.mantissa_bits >> exponent) - (1u << as.mantissa_bits);
  return static_cast<std::uint32_t>(exponent + as.exponent_bias) << as.mantissa_bits | mantissa;
}

/// Calls `with` with a zero of the storage type and a function that encodes integers into it.
template <class With>
void as_type(data_type type, With with) {
  const auto number = [&](auto zero) {
    with(zero, [](std::uint32_t value) { return static_cast<decltype(zero)>(value); });
  };
  const auto bits = [&](auto zero, const layout& as) {
    with(zero,
         [&as](std::uint32_t value) { return static_cast<decltype(zero)>(encode(value, as)); });
  };
  switch (type) {
    case data_type::float32:
      return number(float{});
    case data_type::float64:
      return number(double{});
    case data_type::int32:
    case data_type::uint32:
      return number(std::uint32_t{});
    case data_type::int64:
    case data_type::uint64:
      return number(std::uint64_t{});
    case data_type::int16:
    case data_type::uint16:
      return number(std::uint16_t{});
    case data_type::int8:
    case data_type::uint8:
      return number(std::uint8_t{});
    case data_type::float16:
      return bits(std::uint16_t{}, float16);
    case data_type::bfloat16:
      return bits(std::uint16_t{}, bfloat16);
    case data_type::float8_e4m3:
      return bits(std::uint8_t{}, e4m3);
    case data_type::float8_e5m2:
      return bits(std::uint8_t{}, e5m2);
  }
}

/// The largest n such that the type represents all integers up to n exactly (capped).
std::uint64_t largest_exact(data_type type) {
  switch (type) {
    case data_type::int8:
    case data_type::uint8:
      return 127;
    case data_type::int16:
    case data_type::uint16:
      return 32767;
    case data_type::float16:
      return 1u << (float16.mantissa_bits + 1);
    case data_type::bfloat16:
      return 1u << (bfloat16.mantissa_bits + 1);
    case data_type::float8_e4m3:
      return 1u << (e4m3.mantissa_bits + 1);
    case data_type::float8_e5m2:
      return 1u << (e5m2.mantissa_bits + 1);
    default:
      return 1u << 24;  // float32's
  }
}

/// The largest term for which the results of all ranks are exact; 0 if there is none.
std::uint64_t largest_term(data_type type, reduce_op op, int ranks) {
  const std::uint64_t exact = largest_exact(type) - 1, n = static_cast<std::uint64_t>(ranks);
  switch (op) {
    case reduce_op::sum:
      return std::min<std::uint64_t>(exact / n, 127);
    case reduce_op::premultiplied_sum:
      return std::min<std::uint64_t>(exact / (n * terms::factor), 127);
    case reduce_op::average:  // see average_term
      return exact / n < 2 ? 0 : std::min<std::uint64_t>(exact / n - 1, 127);
    default:
      return std::min<std::uint64_t>(exact, 127);
  }
}

constexpr std::size_t block_elements = 1024;  // elements at a time
using numbers = std::array<std::uint32_t, block_elements>;

/// Fibonacci hashing: data shifted by any number of elements do not match.
std::uint32_t hash_term(std::uint32_t index, int rank, std::uint64_t epoch) {
  const auto shift = static_cast<std::uint32_t>(rank) * 29 + static_cast<std::uint32_t>(epoch) * 13;
  return (index * 0x9E3779B1u >> 20) + shift;
}

/// Each pair of ranks contributes one above and one below the same number, so that the average is
/// that number in every type.
std::uint32_t average_term(std::uint32_t index, int rank, int ranks, std::uint64_t epoch,
                           std::uint32_t mask) {
  const std::uint32_t middle = 1 + (hash_term(index, 0, epoch) & (mask >> 1));
  if (rank % 2 != 0) return middle - 1;
  return rank + 1 == ranks ? middle : middle + 1;
}

/// At most two ranks contribute two, the others one: no product exceeds four.
std::uint32_t product_term(std::uint32_t index, int rank, int ranks, std::uint64_t epoch) {
  const std::uint32_t drawn = hash_term(index, 0, epoch);
  const std::uint32_t order =
      (drawn + static_cast<std::uint32_t>(rank)) % static_cast<std::uint32_t>(ranks);
  return order < 2 && (drawn >> (order + 2) & 1) != 0 ? 2 : 1;
}

void combine(reduce_op op, numbers& into, const numbers& with) {
  const auto each = [&](auto how) {
    for (std::size_t i = 0; i < block_elements; ++i) into[i] = how(into[i], with[i]);
  };
  using number = std::uint32_t;
  switch (op) {
    case reduce_op::product:
      return each([](number a, number b) { return a * b; });
    case reduce_op::minimum:
      return each([](number a, number b) { return std::min(a, b); });
    case reduce_op::maximum:
      return each([](number a, number b) { return std::max(a, b); });
    case reduce_op::band:
      return each([](number a, number b) { return a & b; });
    case reduce_op::bor:
      return each([](number a, number b) { return a | b; });
    case reduce_op::bxor:
      return each([](number a, number b) { return a ^ b; });
    default:
      return each([](number a, number b) { return a + b; });
  }
}

}  // namespace

terms::terms(data_type type, reduce_op op, int ranks) noexcept
    : type_(type),
      op_(op),
      ranks_(ranks),
      mask_(static_cast<std::uint32_t>(std::bit_floor(largest_term(type, op, ranks) + 1) - 1)) {}

bool terms::possible(data_type type, reduce_op op, int ranks) noexcept {
  return largest_term(type, op, ranks) > 0;
}

void terms::generate(std::span<std::uint32_t> to, std::size_t first, int rank,
                     std::uint64_t epoch) const {
  const auto each = [&](auto term) {
    const auto from = static_cast<std::uint32_t>(first);
    for (std::uint32_t i = 0; i < to.size(); ++i) to[i] = term(from + i);
  };
  switch (op_) {
    case reduce_op::average:
      return each(
          [&](std::uint32_t index) { return average_term(index, rank, ranks_, epoch, mask_); });
    case reduce_op::product:
      return each([&](std::uint32_t index) { return product_term(index, rank, ranks_, epoch); });
    default:
      return each([&](std::uint32_t index) { return hash_term(index, rank, epoch) & mask_; });
  }
}

void terms::fill(std::span<std::byte> data, int rank, std::uint64_t epoch) const {
  as_type(type_, [&](auto zero, auto encoded) {
    numbers own;
    std::array<decltype(zero), block_elements> written;
    for (std::size_t at = 0; at < data.size(); at += sizeof(written)) {
      generate(own, at / sizeof(zero), rank, epoch);
      for (std::size_t i = 0; i < block_elements; ++i) written[i] = encoded(own[i]);
      std::memcpy(data.data() + at, written.data(), std::min(sizeof(written), data.size() - at));
    }
  });
}

std::uint64_t terms::wrong_bytes(std::span<const std::byte> result, std::size_t first,
                                 std::uint64_t epoch) const {
  std::uint64_t wrong = 0;
  as_type(type_, [&](auto zero, auto encoded) {
    numbers all, one;
    std::array<decltype(zero), block_elements> wanted;
    for (std::size_t at = 0; at < result.size(); at += sizeof(wanted)) {
      generate(all, first + at / sizeof(zero), 0, epoch);
      for (int rank = 1; rank < ranks_; ++rank) {
        generate(one, first + at / sizeof(zero), rank, epoch);
        combine(op_, all, one);
      }
      for (std::uint32_t& number : all) {
        if (op_ == reduce_op::average) number /= static_cast<std::uint32_t>(ranks_);
        if (op_ == reduce_op::premultiplied_sum) number *= factor;
      }
      for (std::size_t i = 0; i < block_elements; ++i) wanted[i] = encoded(all[i]);
      const std::size_t bytes = std::min(sizeof(wanted), result.size() - at);
      const std::byte* const found = result.data() + at;
      if (std::memcmp(found, wanted.data(), bytes) == 0) continue;
      const auto expected = std::as_bytes(std::span(wanted));
      for (std::size_t i = 0; i < bytes; ++i) wrong += found[i] != expected[i];
    }
  });
  return wrong;
}

std::uint64_t wrong_zeros(std::span<const std::byte> data) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(data, [](std::byte b) { return b != std::byte{0}; }));
}

}  // namespace tandem::perf
