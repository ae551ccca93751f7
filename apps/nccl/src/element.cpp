#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "arguments.hpp"
#include "failure.hpp"

namespace tandem::nccl_abi {
namespace {

struct type_entry {
  std::size_t bytes;
  tandem_type as;
};

/// By ncclDataType_t.
constexpr std::array<type_entry, type_count> types{{{1, TANDEM_INT8},
                                                    {1, TANDEM_UINT8},
                                                    {4, TANDEM_INT32},
                                                    {4, TANDEM_UINT32},
                                                    {8, TANDEM_INT64},
                                                    {8, TANDEM_UINT64},
                                                    {2, TANDEM_FLOAT16},
                                                    {4, TANDEM_FLOAT32},
                                                    {8, TANDEM_FLOAT64},
                                                    {2, TANDEM_BFLOAT16},
                                                    {1, TANDEM_FLOAT8_E4M3},
                                                    {1, TANDEM_FLOAT8_E5M2}}};

const type_entry& entry_of(int type) {
  if (is_type(type)) return types[static_cast<std::size_t>(type)];
  throw failure(invalid_argument, fmt::format("{} is no data type", type));
}

template <class T>
T read(const std::byte* element) noexcept {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

/// A small floating point number by its bits. E4M3 has no infinity (OCP FP8).
double decode(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) noexcept {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
  const unsigned all_ones = (1U << exponent_bits) - 1;
  const unsigned exponent = bits >> mantissa_bits & all_ones;
  const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  const bool is_special =
      exponent == all_ones && (has_infinity || mantissa == (1U << mantissa_bits) - 1);
  if (is_special) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

}  // namespace

std::size_t bytes_of(int type) {
  return entry_of(type).bytes;
}

tandem_type tandem_type_of(int type) {
  return entry_of(type).as;
}

double value_of(type of, const std::byte* element) noexcept {
  switch (of) {
    case int8:
      return read<std::int8_t>(element);
    case uint8:
      return read<std::uint8_t>(element);
    case int32:
      return read<std::int32_t>(element);
    case uint32:
      return read<std::uint32_t>(element);
    case int64:
      return static_cast<double>(read<std::int64_t>(element));
    case uint64:
      return static_cast<double>(read<std::uint64_t>(element));
    case float16:
      return decode(read<std::uint16_t>(element), 5, 10, true);
    case float32:
      return static_cast<double>(read<float>(element));
    case float64:
      return read<double>(element);
    case bfloat16:
      return decode(read<std::uint16_t>(element), 8, 7, true);
    case float8_e4m3:
      return decode(read<std::uint8_t>(element), 4, 3, false);
    case float8_e5m2:
      return decode(read<std::uint8_t>(element), 5, 2, true);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tandem::nccl_abi
