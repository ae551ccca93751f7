// Files of secrets, keys and certificates.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <tandem/secret.hpp>

namespace tandem::trust {

/// A file to read.
struct credential_file {
  std::string_view what;  ///< "key file"
  std::string path;
  bool is_secret = false;  ///< of this user, and of mode 0600 or 0400
  std::size_t max_bytes = 0;
  std::string how_to_make;  ///< advice where it is missing
};

/// What is known of a file before it is read.
struct file_facts {
  bool is_regular = false;
  uid_t owner = 0;
  mode_t mode = 0;  ///< with the type
};

/// The rule for all of them. No I/O. @par Errors thrown  `errc::bad_input`: not a regular file; for
/// one that is secret, another owner than `user`, or a mode by which others may use it.
void check_file(const credential_file& which, const file_facts& found, uid_t user);

/// The content of the file, which may be empty.
/// @par Errors thrown  `errc::bad_input`: those of `check_file`; it cannot be read, or is longer
///   than its limit. `errc::timed_out`: it is on a file system that does not answer.
secret read_credential_file(const credential_file& which, std::chrono::milliseconds limit);

/// "key file PATH: why".
[[noreturn]] void refuse_file(const credential_file& which, std::string_view why,
                              std::string advice);

}  // namespace tandem::trust
