#pragma once

#include <tandem/memory.hpp>

#include "device_source.hpp"
#include "kernels.hpp"

namespace tandem::detail {

class device_work;

/// Whether a premultiplied_sum of the type may have this factor. @pre the type is defined.
bool is_factor(data_type type, double factor) noexcept;

/// The arithmetic of one call. An algorithm prepares each element of its rank's data once, before
/// it is combined or sent; combines; and finishes each element once, when it contains the data of
/// all ranks. Lengths are in bytes, multiples of the element size. All memory is host memory, or
/// memory of the one device whose queue was passed: then calls only queue work. Device and host
/// give the same bits.
///
/// Inputs are identical with the output or do not overlap it. Costs about as much as reading and
/// writing the memory. On the host it allocates nothing and cannot fail; a failed device throws.
class reducer {
 public:
  /// @pre is_defined(type, what.op), and of a premultiplied_sum is_factor(type, what.factor).
  reducer(data_type type, reduction what, int ranks, const kernel_table& with = kernels()) noexcept;
  reducer(data_type type, reduction what, int ranks, device_work* queue) noexcept
      : reducer(type, what, ranks) {
    queue_ = queue;
  }

  std::size_t element_bytes() const noexcept { return element_bytes_; }

  /// For the first level of several: a later one finishes.
  reducer without_finish() const noexcept;
  /// For the levels after the first.
  reducer without_prepare() const noexcept;

  /// Whether `prepare` and `finish` change elements.
  bool prepares() const noexcept { return multiply_ != nullptr; }
  bool finishes() const noexcept { return divide_ != nullptr; }
  /// into = from, times the factor of a premultiplied_sum or of an average of floating point.
  void prepare(void* into, const void* from, std::size_t bytes) const;
  void prepare(mutable_view own) const { prepare(own.data, own.data, own.bytes); }

  /// into[i] = a[i] op b[i]: `a` comes from earlier ranks than `b`.
  void combine(void* into, const void* a, const void* b, std::size_t bytes) const {
    if (queue_ != nullptr) {
      queue_combination(into, a, b, bytes);
    } else {
      combine_(into, a, b, bytes / element_bytes_);
    }
  }
  /// into[i] = other[i] op into[i]: `other` comes from earlier ranks.
  void combine_before(void* into, const void* other, std::size_t bytes) const {
    combine(into, other, into, bytes);
  }
  /// into[i] = into[i] op other[i]: `other` comes from later ranks.
  void combine_after(void* into, const void* other, std::size_t bytes) const {
    combine(into, into, other, bytes);
  }

  /// Completes the result: for an average divides by the number of ranks, times the factor.
  void finish(mutable_view result) const;

 private:
  void queue_combination(void* into, const void* a, const void* b, std::size_t bytes) const;

  combine_kernel combine_;
  scale_kernel multiply_ = nullptr;
  scale_kernel divide_ = nullptr;
  double factor_;
  double divisor_;
  std::size_t element_bytes_;
  data_type type_;
  kernel_work work_;
  device_work* queue_ = nullptr;  // null: host memory
};

}  // namespace tandem::detail
