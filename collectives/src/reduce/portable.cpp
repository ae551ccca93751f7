#include "table.hpp"
#if defined(__SSE2__)
#include "sse2_order.hpp"
#endif

namespace tandem::detail {
namespace {

struct narrow {
  static constexpr std::size_t vector_bytes = 16;
  using float16 = one_by_one<float16_number>;
  using bfloat16 = one_by_one<bfloat16_number>;
  using e4m3 = one_by_one<e4m3_number>;
  using e5m2 = one_by_one<e5m2_number>;

  template <class Word, class Words>
  static bool any_negative(const Words& words) {
    return detail::any_negative<Word>(words);
  }
};

constexpr kernel_table make_portable_table() {
  kernel_table table = make_table<narrow>();
#if defined(__SSE2__)
  table.combine[at(data_type::float32)][at(reduce_op::minimum)] =
      sse2_order<float>::combine<minimum>;
  table.combine[at(data_type::float32)][at(reduce_op::maximum)] =
      sse2_order<float>::combine<maximum>;
  table.combine[at(data_type::float64)][at(reduce_op::minimum)] =
      sse2_order<double>::combine<minimum>;
  table.combine[at(data_type::float64)][at(reduce_op::maximum)] =
      sse2_order<double>::combine<maximum>;
#endif
  return table;
}

}  // namespace

constinit const kernel_table portable_kernels = make_portable_table();

}  // namespace tandem::detail
