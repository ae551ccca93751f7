#include "reducer.hpp"

#include <bit>
#include <cmath>

#include "reduce/device_queue.hpp"

namespace tandem::detail {

reducer::reducer(data_type type, reduction what, int ranks, const kernel_table& with) noexcept
    : combine_(with.combine[static_cast<std::size_t>(type)][static_cast<std::size_t>(what.op)]),
      factor_(what.factor),
      divisor_(ranks),
      element_bytes_(bytes_of(type)),
      type_(type),
      work_(work_of(what.op)) {
  const auto index = static_cast<std::size_t>(type);
  if (what.op == reduce_op::premultiplied_sum) multiply_ = with.multiply[index];
  if (what.op != reduce_op::average || ranks < 2) return;
  if (!is_defined(type, reduce_op::band)) {
    // Sums of the greatest numbers then stay below half of the greatest, so that rounding, which at
    // most doubles a sum, does not make them overflow: two ranks' sum is rounded once. A power of
    // two loses nothing above the subnormal numbers.
    const unsigned parts = static_cast<unsigned>(ranks == 2 ? 2 : 2 * ranks);
    factor_ = std::ldexp(1.0, -std::bit_width(parts - 1));
    multiply_ = with.multiply[index];
    divisor_ *= factor_;
  }
  if (divisor_ != 1) divide_ = with.divide[index];
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

void reducer::prepare(void* into, const void* from, std::size_t bytes) const {
  const std::size_t count = bytes / element_bytes_;
  if (multiply_ != nullptr && queue_ != nullptr) {
    queue_->scale(type_, kernel_work::multiply, into, from, count, factor_);
  } else if (multiply_ != nullptr) {
    multiply_(into, from, count, factor_);
  } else {
    copy_block(queue_, {into, bytes}, {from, bytes});
  }
}

void reducer::finish(mutable_view result) const {
  if (divide_ == nullptr) return;
  const std::size_t count = result.bytes / element_bytes_;
  if (queue_ != nullptr) {
    queue_->scale(type_, kernel_work::divide, result.data, result.data, count, divisor_);
  } else {
    divide_(result.data, result.data, count, divisor_);
  }
}

void reducer::queue_combination(void* into, const void* a, const void* b, std::size_t bytes) const {
  queue_->combine(type_, work_, into, a, b, bytes / element_bytes_);
}

}  // namespace tandem::detail
