// Like numbers.hpp, compiled separately for each instruction set.
#pragma once

#include "kernels.hpp"
#include "loops.hpp"
#include "vector_quotients.hpp"

namespace tandem::detail {
namespace {

constexpr std::size_t at(data_type type) {
  return static_cast<std::size_t>(type);
}
constexpr std::size_t at(reduce_op op) {
  return static_cast<std::size_t>(op);
}

/// Enters the operations that all types have. `Order` has the loops of minimum and maximum.
template <class Numbers, class Order, class Quotient = Numbers>
constexpr void fill_row(kernel_table& table, data_type type) {
  combine_kernel(&row)[reduce_op_count] = table.combine[at(type)];
  row[at(reduce_op::sum)] = Numbers::template combine<sum>;
  row[at(reduce_op::average)] = Numbers::template combine<sum>;
  row[at(reduce_op::premultiplied_sum)] = Numbers::template combine<sum>;
  row[at(reduce_op::product)] = Numbers::template combine<product>;
  row[at(reduce_op::minimum)] = Order::template combine<minimum>;
  row[at(reduce_op::maximum)] = Order::template combine<maximum>;
  table.multiply[at(type)] = Numbers::multiply;
  table.divide[at(type)] = Quotient::divide;
}

/// Signed integers use the unsigned loops for sums, products and bitwise operations.
template <class T>
constexpr void fill_integer_row(kernel_table& table, data_type type) {
  using unsigned_loops = plain<std::make_unsigned_t<T>>;
  fill_row<unsigned_loops, plain<T>, plain<T>>(table, type);
  combine_kernel(&row)[reduce_op_count] = table.combine[at(type)];
  row[at(reduce_op::band)] = unsigned_loops::template combine<band>;
  row[at(reduce_op::bor)] = unsigned_loops::template combine<bor>;
  row[at(reduce_op::bxor)] = unsigned_loops::template combine<bxor>;
}

/// The row of float32 or float64.
template <class T, class Vectors>
constexpr void fill_floating_row(kernel_table& table, data_type type) {
  fill_row<plain<T>, plain<T>,
           vector_quotients<plain_quotients<T, Vectors>, plain_number<T>, Vectors>>(table, type);
}
template <class Loops, class Number, class Vectors>
constexpr void fill_narrow_row(kernel_table& table, data_type type) {
  fill_row<Loops, by_bits<Number>, vector_quotients<Loops, Number, Vectors>>(table, type);
}

/// Of integers of up to 32 bits, only the division. `Narrow` provides the loops over float16,
/// bfloat16, e4m3 and e5m2, and what vector_quotients needs.
template <class Narrow>
constexpr kernel_table make_table_of_wide() {
  kernel_table table{};
  fill_floating_row<float, Narrow>(table, data_type::float32);
  fill_floating_row<double, Narrow>(table, data_type::float64);
  fill_integer_row<std::int64_t>(table, data_type::int64);
  fill_integer_row<std::uint64_t>(table, data_type::uint64);
  fill_narrow_row<typename Narrow::float16, float16_number, Narrow>(table, data_type::float16);
  fill_narrow_row<typename Narrow::bfloat16, bfloat16_number, Narrow>(table, data_type::bfloat16);
  fill_narrow_row<typename Narrow::e4m3, e4m3_number, Narrow>(table, data_type::float8_e4m3);
  fill_narrow_row<typename Narrow::e5m2, e5m2_number, Narrow>(table, data_type::float8_e5m2);
  table.divide[at(data_type::int8)] = plain<std::int8_t>::divide;
  table.divide[at(data_type::int16)] = plain<std::int16_t>::divide;
  table.divide[at(data_type::int32)] = plain<std::int32_t>::divide;
  table.divide[at(data_type::uint8)] = plain<std::uint8_t>::divide;
  table.divide[at(data_type::uint16)] = plain<std::uint16_t>::divide;
  table.divide[at(data_type::uint32)] = plain<std::uint32_t>::divide;
  return table;
}

template <class Narrow>
constexpr kernel_table make_table() {
  kernel_table table = make_table_of_wide<Narrow>();
  fill_integer_row<std::int8_t>(table, data_type::int8);
  fill_integer_row<std::int16_t>(table, data_type::int16);
  fill_integer_row<std::int32_t>(table, data_type::int32);
  fill_integer_row<std::uint8_t>(table, data_type::uint8);
  fill_integer_row<std::uint16_t>(table, data_type::uint16);
  fill_integer_row<std::uint32_t>(table, data_type::uint32);
  return table;
}

}  // namespace
}  // namespace tandem::detail
