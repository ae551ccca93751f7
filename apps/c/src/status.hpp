#pragma once

#include <tandem.h>

#include <exception>
#include <string_view>
#include <tandem/error.hpp>

namespace tandem::c {

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
/// @par Errors thrown: `errc::bad_input` if `pointer` is null.
void require(const void* pointer, std::string_view call, std::string_view what);

}  // namespace tandem::c
