#pragma once

#include <ATen/ATen.h>
#include <tandem.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace tandem::torch_backend {

using at::Tensor;
using c10d::OpType;
using std::chrono::milliseconds;
using tensors = std::vector<Tensor>;

/// Tags from here on are those of monitored barriers.
constexpr int first_barrier_tag = 64512;
constexpr int barrier_tags = 1024;

[[noreturn]] inline void fail(const tandem_error& error) {
  C10_THROW_ERROR(DistBackendError, error.text);
}

inline void check(tandem_status status, const tandem_error& error) {
  if (status != TANDEM_OK) fail(error);
}

inline std::exception_ptr exception_of(const tandem_error& error) {
  try {
    fail(error);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace tandem::torch_backend
