#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <cstdint>
#include <string>

namespace tandem {

using error_code = boost::system::error_code;

/// What can go wrong. Values are part of the interface and never reused.
enum class errc {
  channel_closed = 1,       ///< this end closed the channel
  peer_closed = 2,          ///< the peer closed the channel in an orderly way
  peer_lost = 3,            ///< the peer's process or host is gone
  message_truncated = 4,    ///< the message is longer than the receiver's view
  message_cancelled = 5,    ///< the peer cancelled its half of this message
  timed_out = 6,            ///< the operation's deadline passed
  protocol_violation = 7,   ///< bytes arrived that no correct peer sends
  version_mismatch = 8,     ///< the peer speaks another version of the protocol
  not_tandem = 9,           ///< another program answers at this address
  unsupported_memory = 10,  ///< this channel or machine cannot reach that kind of memory
  limit_exceeded = 11,      ///< more than a limit allows, of the settings or of the system
  rank_missing = 12,        ///< some ranks never came
  rank_taken = 13,          ///< two processes claim one rank
  size_mismatch = 14,       ///< ranks disagree on how many they are
  address_in_use = 15,      ///< another process holds the port
  unreachable = 16,         ///< nobody answers at this address
  bad_option = 17,          ///< an option's name or value is wrong
  bad_input = 18,           ///< a file or an argument is missing, empty or malformed
  call_mismatch = 19,       ///< ranks called different collectives, types or counts
  job_mismatch = 20,        ///< the peer belongs to another job
  not_trusted = 21,         ///< the peer has another secret, or none, or no good certificate
  device_failed = 22,       ///< an accelerator, its driver or its compiler refused a call
  used_after_fork = 23,     ///< the object belongs to the process that forked this one
};

const boost::system::error_category& category() noexcept;
error_code make_error_code(errc value) noexcept;

/// Who and where: what an error says beside its code. Unset fields are left out of the text.
struct error_context {
  int rank = -1;                  ///< the rank that reports
  int peer = -1;                  ///< the rank it was talking to, or that is to blame
  std::string rail;               ///< the link: "tcp 127.0.0.1:41234", "local"
  std::string phase;              ///< what was under way: "recv", "send: waiting for the receiver"
  std::int64_t bytes_done = -1;   ///< bytes moved before the error
  std::int64_t bytes_total = -1;  ///< bytes that were to move
  std::string detail;             ///< the cause in words
  std::string advice;             ///< what to do
};

/// The exception of this library: a code for programs, one line of text for people.
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

/// The text of any exception, for a person: `error::what()`, or the best there is. Of Boost's own
/// errors the message without the place in Boost's sources that `what()` adds.
std::string describe(const std::exception& failure);
std::string describe(std::exception_ptr failure);

}  // namespace tandem

template <>
struct boost::system::is_error_code_enum<tandem::errc> : std::true_type {};
