#include "collectives/slow.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

namespace tandem::test {
namespace {

struct narrow {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  element infinity() const { return ((element{1} << exponent_bits) - 1) << mantissa_bits; }
  element nan() const {
    return has_infinity ? infinity() + (element{1} << (mantissa_bits - 1)) : sign() - 1;
  }
  element sign() const { return element{1} << (exponent_bits + mantissa_bits); }
  /// Value of unsigned bits as if every exponent were that of a number.
  double plain_value(element a) const {
    const int exponent = static_cast<int>(a >> mantissa_bits);
    const double mantissa = static_cast<double>(a & ((element{1} << mantissa_bits) - 1));
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double one = std::ldexp(1, mantissa_bits);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
  }
  element first_not_finite() const { return has_infinity ? infinity() : nan(); }
};

narrow facts_of(data_type type) {
  if (type == data_type::float16) return {5, 10, true};
  if (type == data_type::bfloat16) return {8, 7, true};
  if (type == data_type::float8_e4m3) return {4, 3, false};
  return {5, 2, true};
}

bool is_narrow(data_type type) {
  return !is_integer(type) && bytes_of(type) < 4;
}

element mask(data_type type) {
  return ~element{0} >> (64 - 8 * bytes_of(type));
}

std::int64_t sign_extended(data_type type, element a) {
  const int unused = static_cast<int>(64 - 8 * bytes_of(type));
  return static_cast<std::int64_t>(a << unused) >> unused;
}

element of_float32(float x) {
  return std::isnan(x) ? 0x7fc00000 : std::bit_cast<std::uint32_t>(x);
}
element of_float64(double x) {
  return std::isnan(x) ? 0x7ff8000000000000 : std::bit_cast<std::uint64_t>(x);
}

/// IEEE 754-2019, 9.6.
template <class Float>
Float minimum_of(Float a, Float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return b < a ? b : a;
}

template <class Float>
Float applied(reduce_op op, Float a, Float b) {
  if (op == reduce_op::minimum) return minimum_of(a, b);
  if (op == reduce_op::maximum) return -minimum_of(-a, -b);
  return op == reduce_op::product ? a * b : a + b;
}

bool less(data_type type, element a, element b) {
  return is_signed(type) ? sign_extended(type, a) < sign_extended(type, b) : a < b;
}

element combine_integers(data_type type, reduce_op op, element a, element b) {
  if (op == reduce_op::minimum) return less(type, b, a) ? b : a;
  if (op == reduce_op::maximum) return less(type, a, b) ? b : a;
  if (op == reduce_op::product) return (a * b) & mask(type);
  if (op == reduce_op::band) return a & b;
  if (op == reduce_op::bor) return a | b;
  if (op == reduce_op::bxor) return a ^ b;
  return (a + b) & mask(type);
}

}  // namespace

bool is_integer(data_type type) {
  return name(type).find("int") != std::string_view::npos;
}

bool is_signed(data_type type) {
  return name(type).front() != 'u';
}

element greatest_finite(data_type type) {
  if (type == data_type::float64) return 0x7fefffffffffffff;
  if (type == data_type::float32) return 0x7f7fffff;
  return facts_of(type).first_not_finite() - 1;
}

double slow_value(data_type type, element a) {
  if (type == data_type::float64) return std::bit_cast<double>(a);
  if (type == data_type::float32) return std::bit_cast<float>(static_cast<std::uint32_t>(a));
  const narrow facts = facts_of(type);
  const element magnitude = a & (facts.sign() - 1);
  double x = facts.plain_value(magnitude);
  if (facts.has_infinity && magnitude == facts.infinity()) {
    x = std::numeric_limits<double>::infinity();
  } else if (magnitude >= facts.first_not_finite()) {
    x = std::numeric_limits<double>::quiet_NaN();
  }
  return a & facts.sign() ? -x : x;
}

element slow_nearest(data_type type, float number) {
  const narrow facts = facts_of(type);
  if (std::isnan(number)) return facts.nan();
  const element sign = std::signbit(number) ? facts.sign() : 0;
  const double wanted = std::abs(double{number});
  element below = 0;
  element above = facts.first_not_finite();
  if (wanted < facts.plain_value(above)) {
    while (above - below > 1) {
      const element middle = (below + above) / 2;
      (facts.plain_value(middle) <= wanted ? below : above) = middle;
    }
    const double down = wanted - facts.plain_value(below);
    const double up = facts.plain_value(above) - wanted;
    if (down < up || (down == up && below % 2 == 0)) above = below;
  }
  return above == facts.nan() ? above : above | sign;
}

element slow_combine(data_type type, reduce_op op, element a, element b) {
  if (is_integer(type)) return combine_integers(type, op, a, b);
  if (type == data_type::float64) {
    return of_float64(applied(op, slow_value(type, a), slow_value(type, b)));
  }
  const float result =
      applied(op, static_cast<float>(slow_value(type, a)), static_cast<float>(slow_value(type, b)));
  return is_narrow(type) ? slow_nearest(type, result) : of_float32(result);
}

element slow_multiply(data_type type, element a, double factor) {
  if (is_integer(type)) {
    const element by = factor < 0 ? static_cast<element>(static_cast<std::int64_t>(factor))
                                  : static_cast<element>(factor);
    return (a * by) & mask(type);
  }
  if (type == data_type::float64) return of_float64(slow_value(type, a) * factor);
  const float result = static_cast<float>(slow_value(type, a)) * static_cast<float>(factor);
  return is_narrow(type) ? slow_nearest(type, result) : of_float32(result);
}

element slow_divide(data_type type, element a, double divisor) {
  if (is_integer(type)) {
    const auto by = static_cast<element>(divisor);
    if (!is_signed(type)) return a / by;
    return static_cast<element>(sign_extended(type, a) / static_cast<std::int64_t>(divisor)) &
           mask(type);
  }
  const element greatest = greatest_finite(type), sign = a & (mask(type) / 2 + 1);
  element result = 0;
  if (type == data_type::float64) {
    result = of_float64(slow_value(type, a) / divisor);
  } else {
    const float quotient = static_cast<float>(slow_value(type, a)) / static_cast<float>(divisor);
    result = is_narrow(type) ? slow_nearest(type, quotient) : of_float32(quotient);
  }
  const bool overflows = (a & ~sign) <= greatest && (result & ~sign) > greatest;
  return overflows ? greatest | sign : result;
}

std::vector<element> unpacked(data_type type, const void* from, std::size_t count) {
  std::vector<element> elements(count);
  const std::size_t bytes = bytes_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(&elements[i], static_cast<const std::byte*>(from) + i * bytes, bytes);
  }
  return elements;
}

std::vector<std::byte> packed(data_type type, const std::vector<element>& elements) {
  const std::size_t bytes = bytes_of(type);
  std::vector<std::byte> data(elements.size() * bytes);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(data.data() + i * bytes, &elements[i], bytes);
  }
  return data;
}

std::vector<element> special_elements(data_type type) {
  const element all = mask(type);
  const element top = (all >> 1) + 1;
  std::vector<element> found{0, 1, 2, 3, 7, 100, top - 2, top - 1, all};
  if (!is_integer(type)) {
    int exponent_bits = type == data_type::float64 ? 11 : 8;
    if (is_narrow(type)) exponent_bits = facts_of(type).exponent_bits;
    const int mantissa_bits = static_cast<int>(8 * bytes_of(type)) - 1 - exponent_bits;
    const element min_normal = element{1} << mantissa_bits;
    const element one = ((element{1} << (exponent_bits - 1)) - 1) << mantissa_bits;
    const element infinity = ((element{1} << exponent_bits) - 1) << mantissa_bits;
    for (const element near : {min_normal, one, one + min_normal, infinity}) {
      found.insert(found.end(), {near - 1, near, near + 1, near + min_normal / 2});
    }
  }
  const std::size_t positive = found.size();
  for (std::size_t i = 0; i < positive; ++i) found.push_back(found[i] ^ top);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<element> random_elements(data_type type, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<element> elements(count);
  for (element& e : elements) e = random() & mask(type);
  return elements;
}

std::vector<element> every_element(data_type type) {
  std::vector<element> elements(mask(type) + 1);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = i;
  return elements;
}

}  // namespace tandem::test
