#include "device_source.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <iterator>

#include "kernels.hpp"

namespace tandem::detail {
namespace {

/// Indexed by kernel_work.
constexpr std::string_view work_names[] = {"sum", "product", "minimum",  "maximum", "band",
                                           "bor", "bxor",    "multiply", "divide"};
static_assert(std::size(work_names) == kernel_work_count);

struct kernels_of {
  std::string_view family, type;
};
/// Indexed by data_type: the macro of device_loops.hpp and its argument.
constexpr kernels_of kernel_types[] = {
    {"FLOATS", "float"},           {"FLOATS", "double"},          {"INTEGERS", "std::int32_t"},
    {"INTEGERS", "std::int64_t"},  {"INTEGERS", "std::int8_t"},   {"INTEGERS", "std::int16_t"},
    {"INTEGERS", "std::uint8_t"},  {"INTEGERS", "std::uint16_t"}, {"INTEGERS", "std::uint32_t"},
    {"INTEGERS", "std::uint64_t"}, {"NARROW", "float16_number"},  {"NARROW", "bfloat16_number"},
    {"NARROW", "e4m3_number"},     {"NARROW", "e5m2_number"},
};
static_assert(std::size(kernel_types) == data_type_count);

}  // namespace

kernel_work work_of(reduce_op op) noexcept {
  switch (op) {
    case reduce_op::sum:
    case reduce_op::average:
    case reduce_op::premultiplied_sum:
      return kernel_work::sum;
    case reduce_op::product:
      return kernel_work::product;
    case reduce_op::minimum:
      return kernel_work::minimum;
    case reduce_op::maximum:
      return kernel_work::maximum;
    case reduce_op::band:
      return kernel_work::band;
    case reduce_op::bor:
      return kernel_work::bor;
    case reduce_op::bxor:
      return kernel_work::bxor;
  }
  return kernel_work::sum;
}

std::string kernel_name(data_type type, kernel_work work) {
  return fmt::format("tandem_{}_{}", work_names[static_cast<std::size_t>(work)], name(type));
}

std::string exchange_kernel_name(data_type type, kernel_work work) {
  return fmt::format("tandem_exchange_{}_{}", work_names[static_cast<std::size_t>(work)],
                     name(type));
}

bool has_exchange_kernel(data_type type, kernel_work work) noexcept {
  return has_kernel(type, work) && work != kernel_work::multiply && work != kernel_work::divide;
}

bool has_kernel(data_type type, kernel_work work) noexcept {
  const bool of_bits =
      work == kernel_work::band || work == kernel_work::bor || work == kernel_work::bxor;
  return !of_bits || is_defined(type, reduce_op::band);
}

bool has_exchange_kernels(memory_kind kind, const std::string& architecture) noexcept {
  const std::size_t number = architecture.find_first_of("0123456789");
  return kind != memory_kind::cuda || number == architecture.npos ||
         std::strtol(architecture.c_str() + number, nullptr, 10) >= 70;
}

std::string device_source(data_type type) {
  const kernels_of& made = kernel_types[static_cast<std::size_t>(type)];
  return fmt::format("{}TANDEM_KERNELS_OF_{}({}, {})\n", device_text::before_kernels, made.family,
                     name(type), made.type);
}

}  // namespace tandem::detail
