#include "status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cstddef>
#include <cstring>
#include <span>
#include <tandem/channel.hpp>

namespace tandem::c {
namespace {

tandem_status status_of(const error_code& code) noexcept {
  if (code.category() == category()) return static_cast<tandem_status>(code.value());
  if (code == asio::error::operation_aborted) return TANDEM_ERR_CANCELLED;
  return TANDEM_ERR_SYSTEM;
}

void copy(std::span<char> to, std::string_view text) noexcept {
  const std::size_t bytes = std::min(text.size(), to.size() - 1);
  std::memcpy(to.data(), text.data(), bytes);
  to[bytes] = '\0';
}

/// Fills the members that the caller's structure has.
void write(const tandem_error& from, tandem_error& to) noexcept {
  const std::size_t bytes = std::min(to.struct_bytes, sizeof from);
  if (bytes <= sizeof from.struct_bytes) return;
  std::memcpy(reinterpret_cast<char*>(&to) + sizeof to.struct_bytes,
              reinterpret_cast<const char*>(&from) + sizeof from.struct_bytes,
              bytes - sizeof from.struct_bytes);
}

}  // namespace

error as_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const error& known) {
    return known;
  } catch (const std::exception& other) {
    return error(errc::peer_lost, other.what());
  }
}

tandem_status report(std::exception_ptr failure, tandem_error* into) noexcept {
  tandem_error found = TANDEM_ERROR_INIT;
  tandem_status status = TANDEM_ERR_SYSTEM;
  try {
    copy(found.text, describe(failure));
    std::rethrow_exception(failure);
  } catch (const error& e) {
    status = status_of(e.code());
    const error_context& c = e.context();
    found.rank = c.rank;
    found.peer = c.peer;
    found.bytes_done = c.bytes_done;
    found.bytes_total = c.bytes_total;
    copy(found.rail, c.rail);
    copy(found.phase, c.phase);
  } catch (const boost::system::system_error& e) {
    status = status_of(e.code());
  } catch (...) {  // the text has it, if there was memory for one
  }
  found.code = status;
  if (into != nullptr) write(found, *into);
  return status;
}

std::optional<std::chrono::milliseconds> limit_of(std::int64_t given_ms) {
  if (given_ms == 0) return std::nullopt;
  if (given_ms > 0) return std::chrono::milliseconds(given_ms);
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      operation::no_deadline.time_since_epoch());
}

memory_kind kind_of(std::int32_t kind) {
  if (kind >= TANDEM_HOST && kind <= TANDEM_HIP) return static_cast<memory_kind>(kind);
  throw error(errc::bad_input, fmt::format("{} is no memory kind", kind), "see tandem_memory_kind");
}

void require(const void* pointer, std::string_view call, std::string_view what) {
  if (pointer != nullptr) return;
  throw error(errc::bad_input, fmt::format("{}: {} is NULL", call, what));
}

}  // namespace tandem::c
