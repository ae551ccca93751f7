// Requests of the launcher to the reaper: a header, followed for a start by its NUL-terminated
// strings. The two descriptors of a start are sent with the header (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tandem::launcher {

/// Limit for processes in uninterruptible system calls, which do not react to SIGKILL.
inline constexpr std::chrono::seconds kill_limit{5};

struct reaper_request {
  enum class kind : std::int32_t { start, signal, report_empty, kill_all };
  kind what;
  std::int32_t signal = 0;
  std::uint32_t arguments = 0;  ///< strings of the command; the rest are of the environment
  std::uint32_t variables = 0;
  std::uint64_t string_bytes = 0;
};

/// Buffer for a control message of two descriptors.
union descriptor_pair {
  cmsghdr header;
  char bytes[CMSG_SPACE(2 * sizeof(int))];
};

/// Main loop of the reaper process: serves requests until the launcher exits, then kills all
/// remaining processes. @pre Called right after the fork, with all signals blocked.
[[noreturn]] void serve_launcher(int socket) noexcept;

}  // namespace tandem::launcher
