#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <cstdint>
#include <string>

#pragma GCC visibility push(default)

namespace tandem {

/// The code of an error, of this library (`errc`) or of the system.
using error_code = boost::system::error_code;

/// Error codes. Values are part of the interface and never reused.
enum class errc {
  channel_closed = 1,       ///< the local end closed the channel
  peer_closed = 2,          ///< the peer closed the channel (close frame received)
  peer_lost = 3,            ///< the peer's process or host is lost
  message_truncated = 4,    ///< the message is longer than the receiver's view
  message_cancelled = 5,    ///< the peer cancelled its send or receive of this message
  timed_out = 6,            ///< the operation's deadline expired
  protocol_violation = 7,   ///< the peer violated the wire protocol
  version_mismatch = 8,     ///< the peer uses another protocol version
  not_tandem = 9,           ///< a program other than Tandem answers at this address
  unsupported_memory = 10,  ///< that memory kind is not accessible here
  limit_exceeded = 11,      ///< a limit of the settings or of the system is exceeded
  rank_missing = 12,        ///< some ranks did not join the job in time
  rank_taken = 13,          ///< two processes claim one rank
  size_mismatch = 14,       ///< ranks disagree on the size of the job
  address_in_use = 15,      ///< another process uses the port
  unreachable = 16,         ///< the peer cannot be reached at this address
  bad_option = 17,          ///< an option's name or value is invalid
  bad_input = 18,           ///< a file or an argument is missing, empty or malformed
  call_mismatch = 19,       ///< ranks called different collectives, types or counts
  job_mismatch = 20,        ///< the peer belongs to another job
  not_trusted = 21,         ///< the peer has another secret, none, or no valid certificate
  device_failed = 22,       ///< an accelerator, its driver or its compiler refused a call
  used_after_fork = 23,     ///< the object belongs to the parent of this process
  wrong_thread = 24,        ///< another thread or strand drives the object
};

/// The category of `errc`.
const boost::system::error_category& category() noexcept;
/// The conversion that `error_code` uses.
error_code make_error_code(errc value) noexcept;

/// Context of an error, in addition to its code. Unset fields are left out of the text.
struct error_context {
  int rank = -1;                  ///< the rank that reports
  int peer = -1;                  ///< the remote rank of the operation, or the one that caused it
  std::string rail;               ///< the connection: "tcp 127.0.0.1:41234", "local"
  std::string phase;              ///< "recv", "send: waiting for the receiver"
  std::int64_t bytes_done = -1;   ///< bytes transferred before the error
  std::int64_t bytes_total = -1;  ///< bytes to transfer
  std::string detail;             ///< the cause, as text
  std::string advice;             ///< what to do
};

/// The exception type of this library: a code for programs, one line of text for people.
class error : public boost::system::system_error {
 public:
  explicit error(error_code code, error_context context = {});
  error(errc code, std::string detail, std::string advice = {});

  const error_context& context() const noexcept { return context_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  error_context context_;
  std::string text_;
};

/// The same error with the empty fields of its context filled from `outer`.
error with_context(const error& inner, const error_context& outer);

/// A readable text of any exception: `error::what()` or the closest equivalent. For Boost's own
/// errors, the message without the source location that `what()` appends.
std::string describe(const std::exception& failure);
/// The same for an exception in a pointer; "no error" if it is null.
std::string describe(std::exception_ptr failure);

}  // namespace tandem

namespace boost::system {
template <>
struct is_error_code_enum<tandem::errc> : std::true_type {};
}  // namespace boost::system

#pragma GCC visibility pop
