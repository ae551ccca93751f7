#pragma once

#include <cstdint>
#include <string>
#include <tandem/collectives.hpp>
#include <vector>

/// Scalar reductions in the simplest form: the reference for the kernels.
namespace tandem::test {

/// Bits of one element, in the low bits.
using element = std::uint64_t;

inline constexpr data_type all_types[] = {
    data_type::float32,     data_type::float64,    data_type::int32,   data_type::int64,
    data_type::int8,        data_type::int16,      data_type::uint8,   data_type::uint16,
    data_type::uint32,      data_type::uint64,     data_type::float16, data_type::bfloat16,
    data_type::float8_e4m3, data_type::float8_e5m2};
inline constexpr reduce_op all_ops[] = {
    reduce_op::sum,     reduce_op::product, reduce_op::minimum,
    reduce_op::maximum, reduce_op::average, reduce_op::band,
    reduce_op::bor,     reduce_op::bxor,    reduce_op::premultiplied_sum};

bool is_integer(data_type type);
bool is_signed(data_type type);

/// a op b; for average and premultiplied_sum the sum.
element slow_combine(data_type type, reduce_op op, element a, element b);
element slow_multiply(data_type type, element a, double factor);
/// At most the greatest finite number if `a` is finite.
element slow_divide(data_type type, element a, double divisor);

/// Bits of the greatest finite number of a floating-point type.
element greatest_finite(data_type type);
/// Value of a floating-point element.
double slow_value(data_type type, element a);
/// Nearest floating-point element; ties to even.
element slow_nearest(data_type type, float number);

/// Elements in memory layout.
std::vector<element> unpacked(data_type type, const void* from, std::size_t count);
std::vector<std::byte> packed(data_type type, const std::vector<element>& elements);

/// Zeros, ones, the least and greatest of each kind, infinities, NaNs; limits of integers.
std::vector<element> special_elements(data_type type);
/// Random bits.
std::vector<element> random_elements(data_type type, std::size_t count, unsigned seed);
/// 0, 1, 2... as far as the type's bits go.
std::vector<element> every_element(data_type type);

}  // namespace tandem::test
