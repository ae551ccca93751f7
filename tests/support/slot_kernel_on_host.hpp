#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "doubles/cuda/double.hpp"

namespace tandem::test {

/// The kernel of the library that carries messages, on the simulated GPUs: compiled from the same
/// source, each of its blocks is a thread of the processor.
class slot_kernel_on_host {
 public:
  explicit slot_kernel_on_host(cuda_double& gpus);
  /// Waits until all are through.
  ~slot_kernel_on_host();
  slot_kernel_on_host(const slot_kernel_on_host&) = delete;
  slot_kernel_on_host& operator=(const slot_kernel_on_host&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;  ///< threads
};

/// `copy_piece` of the kernel, by so many threads one after the other.
void copy_piece_on_host(char* to, const char* from, std::size_t bytes, unsigned threads);

}  // namespace tandem::test
