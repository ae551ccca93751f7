#include "reducer.hpp"

#include <cstring>

namespace tandem::detail {

reducer::reducer(data_type type, reduction what, int ranks, const kernel_table& with) noexcept
    : combine_(with.combine[static_cast<std::size_t>(type)][static_cast<std::size_t>(what.op)]),
      factor_(what.factor),
      ranks_(ranks),
      element_bytes_(bytes_of(type)) {
  const auto index = static_cast<std::size_t>(type);
  if (what.op == reduce_op::premultiplied_sum) multiply_ = with.multiply[index];
  if (what.op == reduce_op::average) divide_ = with.divide[index];
}

reducer reducer::without_finish() const noexcept {
  reducer result = *this;
  result.divide_ = nullptr;
  return result;
}

reducer reducer::without_prepare() const noexcept {
  reducer result = *this;
  result.multiply_ = nullptr;
  return result;
}

void reducer::prepare(void* into, const void* from, std::size_t bytes) const noexcept {
  if (multiply_ != nullptr) {
    multiply_(into, from, bytes / element_bytes_, factor_);
  } else if (into != from && bytes != 0) {
    std::memcpy(into, from, bytes);
  }
}

void reducer::finish(mutable_view result) const noexcept {
  if (divide_ != nullptr) divide_(result.data, result.data, result.bytes / element_bytes_, ranks_);
}

}  // namespace tandem::detail
