#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace tandem::train {

/// The order of vectorised sums, and their tails, depend on the alignment of an array. All arrays
/// of the kernels start on this boundary, so results have the same bits with any partition.
inline constexpr std::size_t alignment_bytes = 64;

/// The count rounded up to a multiple of the boundary.
template <class Scalar>
constexpr std::size_t padded(std::size_t count) {
  constexpr std::size_t unit = alignment_bytes / sizeof(Scalar);
  return (count + unit - 1) / unit * unit;
}

/// A zero-initialised array that starts on the boundary.
template <class Scalar>
class aligned_array {
 public:
  aligned_array() = default;
  explicit aligned_array(std::size_t size) : size_(size) {
    void* memory =
        ::operator new (padded<Scalar>(size) * sizeof(Scalar), std::align_val_t{alignment_bytes});
    data_.reset(static_cast<Scalar*>(memory));
    clear();
  }

  Scalar* data() { return data_.get(); }
  const Scalar* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<Scalar> span() { return {data(), size_}; }
  void clear() { std::fill_n(data(), padded<Scalar>(size_), Scalar(0)); }

 private:
  struct free {
    void operator()(Scalar* memory) const {
      ::operator delete (memory, std::align_val_t{alignment_bytes});
    }
  };
  std::unique_ptr<Scalar[], free> data_;
  std::size_t size_ = 0;
};

}  // namespace tandem::train
