#pragma once

#include <tandem.h>

#include <exception>
#include <string>
#include <tandem/detail/nccl.hpp>

#include "abi.hpp"

namespace tandem::nccl_abi {

/// What an exported function returns, with the sentence for `ncclGetLastError`.
class failure : public std::exception {
 public:
  failure(result code, std::string text) : code_(code), text_(std::move(text)) {}

  result code() const noexcept { return code_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  result code_;
  std::string text_;
};

/// Of a status of Tandem's C interface.
result result_of(int status) noexcept;
/// @par Errors thrown: `failure` unless the call has succeeded
void require_ok(tandem_status status, const tandem_error& why);
/// The same for a call of the vendor's library.
void require_ok(detail::nc::result status, const detail::nccl& by, detail::nc::comm of,
                const char* call);
[[noreturn]] void refuse(result code, std::string text);

/// What `ncclGetLastError` returns without a communicator; of this thread.
std::string& last_error_of_thread() noexcept;
/// Notes the exception as the thread's last error, and the communicator's unless `of` is null.
result report(const std::exception_ptr& why, comm_rank* of) noexcept;

/// Runs the body of an exported function: nothing is thrown out of it.
template <class Body>
result guarded(comm_rank* of, Body body) noexcept {
  try {
    body();
    return success;
  } catch (...) {
    return report(std::current_exception(), of);
  }
}

}  // namespace tandem::nccl_abi
