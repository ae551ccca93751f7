#include "support/device_kernels.hpp"

#include "reduce/device_source.hpp"
#include "reduce/loops.hpp"

// What a device compiler provides.
namespace {
struct in_one_dimension {
  unsigned x;
};
thread_local in_one_dimension blockIdx, blockDim, gridDim, threadIdx;  // NOLINT: the vendor's names
}  // namespace
#define TANDEM_ENTRY static

#include "reduce/device_loops.hpp"
#include "support/kernels_of_types.hpp"

namespace tandem::test {
namespace {

using detail::data_type_count;
using detail::kernel_work;

template <class Body>
void on_grid(unsigned blocks, unsigned threads, Body body) {
  blockDim.x = threads;
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) body();
  }
}

template <class T>
T argument(void** arguments, int which) {
  return *static_cast<T*>(arguments[which]);
}

using combining = void (*)(void*, const void*, const void*, unsigned long long);
using scaling = void (*)(void*, const void*, unsigned long long, double);

template <combining Kernel>
struct combine_on_host {
  static void run(unsigned blocks, unsigned threads, void** given) {
    on_grid(blocks, threads, [given] {
      Kernel(argument<void*>(given, 0), argument<const void*>(given, 1),
             argument<const void*>(given, 2), argument<unsigned long long>(given, 3));
    });
  }
  static void as_kernel(void* into, const void* a, const void* b, std::size_t count) noexcept {
    on_grid(3, 5, [=] { Kernel(into, a, b, count); });
  }
};

template <scaling Kernel>
struct scale_on_host {
  static void run(unsigned blocks, unsigned threads, void** given) {
    on_grid(blocks, threads, [given] {
      Kernel(argument<void*>(given, 0), argument<const void*>(given, 1),
             argument<unsigned long long>(given, 2), argument<double>(given, 3));
    });
  }
  static void as_kernel(void* into, const void* from, std::size_t count, double by) noexcept {
    on_grid(3, 5, [=] { Kernel(into, from, count, by); });
  }
};

struct all_kernels {
  std::map<std::string, kernel_on_host> by_name;
  detail::kernel_table table{};

  template <combining Kernel>
  void add(data_type type, kernel_work work) {
    using kernel = combine_on_host<Kernel>;
    by_name[detail::kernel_name(type, work)] = kernel::run;
    for (std::size_t op = 0; op < detail::reduce_op_count; ++op) {
      if (detail::work_of(static_cast<reduce_op>(op)) != work) continue;
      table.combine[static_cast<std::size_t>(type)][op] = kernel::as_kernel;
    }
  }
  template <scaling Multiply, scaling Divide>
  void add_scales(data_type type) {
    by_name[detail::kernel_name(type, kernel_work::multiply)] = scale_on_host<Multiply>::run;
    by_name[detail::kernel_name(type, kernel_work::divide)] = scale_on_host<Divide>::run;
    table.multiply[static_cast<std::size_t>(type)] = scale_on_host<Multiply>::as_kernel;
    table.divide[static_cast<std::size_t>(type)] = scale_on_host<Divide>::as_kernel;
  }
};

#define ADD_COMBINING(work, type) \
  all.add<tandem_##work##_##type>(data_type::type, kernel_work::work);
#define ADD_KERNELS(type)      \
  ADD_COMBINING(sum, type)     \
  ADD_COMBINING(product, type) \
  ADD_COMBINING(minimum, type) \
  ADD_COMBINING(maximum, type) \
  all.add_scales<tandem_multiply_##type, tandem_divide_##type>(data_type::type);
#define ADD_KERNELS_OF_INTEGERS(type) \
  ADD_KERNELS(type)                   \
  ADD_COMBINING(band, type)           \
  ADD_COMBINING(bor, type)            \
  ADD_COMBINING(bxor, type)

all_kernels made() {
  all_kernels all;
  TANDEM_FOR_ALL_TYPES(ADD_KERNELS, ADD_KERNELS_OF_INTEGERS)
  return all;
}

const all_kernels& kernels() {
  static const all_kernels all = made();
  return all;
}

}  // namespace

const std::map<std::string, kernel_on_host>& kernels_on_host() {
  return kernels().by_name;
}

const detail::kernel_table& device_kernel_table() {
  return kernels().table;
}

}  // namespace tandem::test
