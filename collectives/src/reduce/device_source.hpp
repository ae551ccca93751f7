#pragma once

#include <string>
#include <string_view>
#include <tandem/memory.hpp>
#include <tandem/reduction.hpp>

/// The source of the kernels of one type, for CUDA and HIP compilers; it has no includes.
namespace tandem::detail {

/// The operation of a kernel: combine two elements as `reduce_op` defines, or scale one.
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

/// "tandem_sum_float32". Arguments of a combining kernel:
///   void* into, const void* a, const void* b, unsigned long long count
/// of a scaling kernel:
///   void* into, const void* from, unsigned long long count, double by
/// Any one-dimensional grid processes all elements.
std::string kernel_name(data_type type, kernel_work work);
/// "tandem_exchange_sum_float32", of work that combines: what two ranks have, whose kernels
/// exchange it (streams/slot_exchange.hpp).
std::string exchange_kernel_name(data_type type, kernel_work work);
/// False for bitwise operations on types that are not integers.
bool has_kernel(data_type type, kernel_work work) noexcept;
bool has_exchange_kernel(data_type type, kernel_work work) noexcept;
/// False for GPUs of NVIDIA before Volta ("sm_70"), which do not acquire and release.
bool has_exchange_kernels(memory_kind kind, const std::string& architecture) noexcept;
/// Whether one of their blocks sends and combines, by halves; else two blocks do.
constexpr bool pairs_exchanges(memory_kind kind) noexcept {
  return kind == memory_kind::cuda;
}

/// All kernels of a type. @pre the type is defined.
std::string device_source(data_type type);

namespace device_text {
extern const std::string_view before_kernels;  // made from the headers at configure time
}

}  // namespace tandem::detail
