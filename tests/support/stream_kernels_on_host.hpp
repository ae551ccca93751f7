#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "doubles/cuda/double.hpp"

namespace tandem::test {

/// The kernels of the library that wait, on the simulated GPUs: compiled from the same source, each
/// of their blocks, or of its groups of threads, is a thread of the processor.
class stream_kernels_on_host {
 public:
  explicit stream_kernels_on_host(cuda_double& gpus);
  /// Waits until all are through.
  ~stream_kernels_on_host();
  stream_kernels_on_host(const stream_kernels_on_host&) = delete;
  stream_kernels_on_host& operator=(const stream_kernels_on_host&) = delete;

  /// How many copies to and from pinned memory have begun.
  int staged_copies() const noexcept { return staged_copies_; }
  /// Likewise the kernels that exchange and combine.
  int exchanges() const noexcept { return exchanges_; }

 private:
  /// @param groups_of  how many groups of threads the kernel's argument asks for
  template <class Work, class Groups>
  void add(cuda_double& gpus, const std::string& name, void (*run)(Work), Groups groups_of);
  /// Returns what tells when all groups are through.
  std::function<bool()> start(unsigned groups, const std::function<void(unsigned group)>& run);

  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;  ///< threads
  std::atomic<int> staged_copies_{0}, exchanges_{0};
};

/// `copy_piece` of the kernel, by so many threads one after the other.
void copy_piece_on_host(char* to, const char* from, std::size_t bytes, unsigned threads);

}  // namespace tandem::test
