#include <cmath>
#include <iterator>
#include <limits>

#include "reducer.hpp"

namespace tandem {
namespace {

enum class family { floating, signed_integer, unsigned_integer };

struct type_facts {
  std::string_view name;
  family of;
};

/// Indexed by data_type.
constexpr type_facts types[] = {
    {"float32", family::floating},        {"float64", family::floating},
    {"int32", family::signed_integer},    {"int64", family::signed_integer},
    {"int8", family::signed_integer},     {"int16", family::signed_integer},
    {"uint8", family::unsigned_integer},  {"uint16", family::unsigned_integer},
    {"uint32", family::unsigned_integer}, {"uint64", family::unsigned_integer},
    {"float16", family::floating},        {"bfloat16", family::floating},
    {"float8_e4m3", family::floating},    {"float8_e5m2", family::floating},
};
static_assert(std::size(types) == detail::data_type_count);

/// Indexed by reduce_op.
constexpr std::string_view ops[] = {"sum",  "product", "minimum", "maximum",          "average",
                                    "band", "bor",     "bxor",    "premultiplied_sum"};
static_assert(std::size(ops) == detail::reduce_op_count);

}  // namespace

std::string_view name(data_type type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(types) ? types[index].name : "unknown type";
}

std::string_view name(reduce_op op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(ops) ? ops[index] : "unknown operation";
}

bool is_defined(data_type type, reduce_op op) noexcept {
  const auto index = static_cast<std::size_t>(type);
  if (index >= std::size(types) || static_cast<std::size_t>(op) >= std::size(ops)) return false;
  const bool of_bits = op == reduce_op::band || op == reduce_op::bor || op == reduce_op::bxor;
  return !of_bits || types[index].of != family::floating;
}

namespace detail {

bool is_factor(data_type type, double factor) noexcept {
  const type_facts& facts = types[static_cast<std::size_t>(type)];
  if (facts.of == family::floating) {
    return type == data_type::float64 || !std::isfinite(factor) ||
           std::abs(factor) <= std::numeric_limits<float>::max();
  }
  const bool is_signed = facts.of == family::signed_integer;
  const int bits = static_cast<int>(8 * bytes_of(type)) - (is_signed ? 1 : 0);
  const double above = std::ldexp(1, bits);
  return factor >= (is_signed ? -above : 0) && factor < above && factor == std::floor(factor);
}

}  // namespace detail
}  // namespace tandem
