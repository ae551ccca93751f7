#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace tandem::train {

/// Vectorised sums and tails depend on where an array starts within a packet of numbers. Everything
/// the kernels touch starts on this boundary, whatever the partition, and so has the same bits.
inline constexpr std::size_t alignment_bytes = 64;

/// The count rounded up so that what follows starts on the boundary again.
template <class Scalar>
constexpr std::size_t padded(std::size_t count) {
  constexpr std::size_t unit = alignment_bytes / sizeof(Scalar);
  return (count + unit - 1) / unit * unit;
}

/// Zeroed numbers that start on the boundary.
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
