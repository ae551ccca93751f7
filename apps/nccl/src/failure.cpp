#include "failure.hpp"

#include <fmt/format.h>

#include <tandem/log.hpp>

#include "comm_rank.hpp"
#include "status.hpp"

namespace tandem::nccl_abi {

result result_of(int status) noexcept {
  switch (status) {
    case TANDEM_OK:
      return success;
    case TANDEM_IN_PROGRESS:
      return in_progress;
    case TANDEM_ERR_BAD_INPUT:
    case TANDEM_ERR_BAD_OPTION:
    case TANDEM_ERR_UNSUPPORTED_MEMORY:
      return invalid_argument;
    case TANDEM_ERR_CALL_MISMATCH:
    case TANDEM_ERR_USED_AFTER_FORK:
    case TANDEM_ERR_SIZE_MISMATCH:
    case TANDEM_ERR_RANK_TAKEN:
      return invalid_usage;
    case TANDEM_ERR_DEVICE_FAILED:
      return unhandled_device_error;
    case TANDEM_ERR_SYSTEM:
    case TANDEM_ERR_LIMIT_EXCEEDED:
    case TANDEM_ERR_ADDRESS_IN_USE:
    case TANDEM_ERR_UNREACHABLE:
      return system_error;
    default:
      return remote_error;
  }
}

void require_ok(tandem_status status, const tandem_error& why) {
  if (status != TANDEM_OK) throw failure(result_of(status), why.text);
}

void require_ok(detail::nc::result status, const detail::nccl& by, detail::nc::comm of,
                const char* call) {
  if (status == detail::nc::success || status == detail::nc::in_progress) return;
  const char* const detail = by.last_error == nullptr ? nullptr : by.last_error(of);
  throw failure(static_cast<result>(status),
                fmt::format("{} of the vendor's library: {}{}{}", call, by.error_string(status),
                            detail == nullptr || *detail == '\0' ? "" : ": ",
                            detail == nullptr ? "" : detail));
}

void refuse(result code, std::string text) {
  throw failure(code, std::move(text));
}

std::string& last_error_of_thread() noexcept {
  static thread_local std::string text;
  return text;
}

result report(const std::exception_ptr& why, comm_rank* of) noexcept {
  result code = internal_error;
  std::string text;
  try {
    std::rethrow_exception(why);
  } catch (const failure& known) {
    code = known.code();
    text = known.what();
  } catch (...) {
    tandem_error found = TANDEM_ERROR_INIT;
    code = result_of(c::report(std::current_exception(), &found));
    text = found.text;
  }
  try {
    log(log_level::warning, "nccl", text);
    last_error_of_thread() = text;
    if (of != nullptr) of->set_last_error(text);
  } catch (...) {  // no memory for the text
  }
  return code;
}

}  // namespace tandem::nccl_abi
