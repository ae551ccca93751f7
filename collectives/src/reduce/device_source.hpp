#pragma once

#include <string>
#include <string_view>
#include <tandem/collectives/reduction.hpp>

/// The source of kernels for one type, which compilers of CUDA and of HIP take; it includes
/// nothing.
namespace tandem::detail {

/// What one kernel does: combine two elements, as `reduce_op` says, or scale one.
enum class kernel_work : std::uint8_t {
  sum,
  product,
  minimum,
  maximum,
  band,
  bor,
  bxor,
  multiply,
  divide,
};
constexpr std::size_t kernel_work_count = 9;

/// Average and premultiplied_sum combine as the sum does.
kernel_work work_of(reduce_op op) noexcept;

/// "tandem_sum_float32". Its arguments, where it combines:
///   void* into, const void* a, const void* b, unsigned long long count
/// and where it scales:
///   void* into, const void* from, unsigned long long count, double by
/// Any one-dimensional grid does all elements.
std::string kernel_name(data_type type, kernel_work work);
/// All but the bits of what is no integer.
bool has_kernel(data_type type, kernel_work work) noexcept;

/// All kernels of a type. @pre the type is defined.
std::string device_source(data_type type);

namespace device_text {
extern const std::string_view before_kernels;  // made from the headers when this is configured
}

}  // namespace tandem::detail
