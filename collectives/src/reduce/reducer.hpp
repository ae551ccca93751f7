#pragma once

#include <tandem/memory.hpp>

#include "kernels.hpp"

namespace tandem::detail {

/// Whether a premultiplied_sum of the type may have this factor. @pre the type is defined.
bool is_factor(data_type type, double factor) noexcept;

/// What one call does to elements. An algorithm prepares each element that its rank brings once,
/// before that is combined or sent; combines; and finishes each element once, when it holds what
/// all ranks brought. All of it in host memory, lengths in bytes, whole elements.
///
/// What is read may be what is written to, or lies apart from it: never overlapping in part. Costs
/// about as much as reading and writing the memory; allocates nothing, cannot fail.
class reducer {
 public:
  /// @pre is_defined(type, what.op), and of a premultiplied_sum is_factor(type, what.factor).
  reducer(data_type type, reduction what, int ranks, const kernel_table& with = kernels()) noexcept;

  std::size_t element_bytes() const noexcept { return element_bytes_; }

  /// For the first part of a way in several: another part will finish.
  reducer without_finish() const noexcept;
  /// For the parts after the first.
  reducer without_prepare() const noexcept;

  /// Elements change as they are brought.
  bool prepares() const noexcept { return multiply_ != nullptr; }
  /// into = from as this rank brings it: times the factor of a premultiplied_sum.
  void prepare(void* into, const void* from, std::size_t bytes) const noexcept;
  void prepare(mutable_view own) const noexcept { prepare(own.data, own.data, own.bytes); }

  /// into[i] = a[i] op b[i]: `a` comes from earlier ranks than `b`.
  void combine(void* into, const void* a, const void* b, std::size_t bytes) const noexcept {
    combine_(into, a, b, bytes / element_bytes_);
  }
  /// into[i] = other[i] op into[i]: `other` comes from earlier ranks.
  void combine_before(void* into, const void* other, std::size_t bytes) const noexcept {
    combine(into, other, into, bytes);
  }
  /// into[i] = into[i] op other[i]: `other` comes from later ranks.
  void combine_after(void* into, const void* other, std::size_t bytes) const noexcept {
    combine(into, into, other, bytes);
  }

  /// The result from what all ranks were combined into: divided by their number for an average.
  void finish(mutable_view result) const noexcept;

 private:
  combine_kernel combine_;
  scale_kernel multiply_ = nullptr;
  scale_kernel divide_ = nullptr;
  double factor_;
  double ranks_;
  std::size_t element_bytes_;
};

}  // namespace tandem::detail
