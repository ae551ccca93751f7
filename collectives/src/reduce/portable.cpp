#include "table.hpp"

namespace tandem::detail {
namespace {

struct narrow {
  using float16 = one_by_one<float16_number>;
  using bfloat16 = one_by_one<bfloat16_number>;
  using e4m3 = one_by_one<e4m3_number>;
  using e5m2 = one_by_one<e5m2_number>;
};

}  // namespace

constinit const kernel_table portable_kernels = make_table<narrow>();

}  // namespace tandem::detail
