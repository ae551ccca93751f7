#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/error.hpp>

#include "doubles/cuda/double.hpp"
#include "support/coroutine_test.hpp"

namespace tandem::test {

inline accelerator& cuda_at(int device) {
  return accelerator_at(memory_kind::cuda, device);
}

/// The error that `call` throws, if any.
inline std::optional<error> failure_of_call(const std::function<void()>& call) {
  try {
    call();
  } catch (const error& failed) {
    return failed;
  }
  return std::nullopt;
}

}  // namespace tandem::test
