#pragma once

#include <tandem.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>

namespace tandem::c {

/// The error that it is; of any other exception its text.
error as_error(const std::exception_ptr& failure);
/// The status of an exception, with its context in `into` unless that is null.
tandem_status report(std::exception_ptr failure, tandem_error* into) noexcept;
/// Calls `body` and reports what it throws.
template <class Body>
tandem_status guarded(tandem_error* into, Body body) noexcept {
  try {
    body();
    return TANDEM_OK;
  } catch (...) {
    return report(std::current_exception(), into);
  }
}
/// A time limit as tandem.h has it: 0: none given, empty; below 0: no limit.
std::optional<std::chrono::milliseconds> limit_of(std::int64_t given_ms);
/// @par Errors thrown: `errc::bad_input`: there is no such kind.
memory_kind kind_of(std::int32_t kind);
/// @par Errors thrown: `errc::bad_input` if `pointer` is null.
void require(const void* pointer, std::string_view call, std::string_view what);

}  // namespace tandem::c
