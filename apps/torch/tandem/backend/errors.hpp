#pragma once

#include <ATen/ATen.h>
#include <tandem.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace tandem::torch_backend {

using at::Tensor;
using c10d::OpType;
using std::chrono::milliseconds;
using tensors = std::vector<Tensor>;

/// The text for the life of the process: profilers keep pointers to the names of calls.
inline const char* interned(const std::string& text) {
  static std::mutex mutex;
  static auto& all = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return all.insert(text).first->c_str();
}

/// Tags from here on are those of monitored barriers.
constexpr int first_barrier_tag = 64512;
constexpr int barrier_tags = 1024;

/// Scripts recognise a timeout by that word.
[[noreturn]] inline void fail(const tandem_error& error) {
  const bool timed_out = error.code == TANDEM_ERR_TIMED_OUT;
  C10_THROW_ERROR(DistBackendError,
                  c10::str(timed_out ? "tandem: a timeout : " : "tandem: ", error.text));
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
