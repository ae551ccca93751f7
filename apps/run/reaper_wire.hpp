// What the launcher asks its reaper for: a header, then the strings of a start, each with its NUL.
// The two descriptors of a start come with the header (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

namespace tandem::launcher {

struct reaper_request {
  enum class kind : std::int32_t { start, signal, kill_all };
  kind what;
  std::int32_t signal = 0;
  std::uint32_t arguments = 0;  ///< strings of the command; the rest are of the environment
  std::uint32_t variables = 0;
  std::uint64_t string_bytes = 0;
};

/// Room for a control message of two descriptors.
union descriptor_pair {
  cmsghdr header;
  char bytes[CMSG_SPACE(2 * sizeof(int))];
};

/// The life of the reaper's process: serves requests until the launcher is gone, then kills what is
/// left. @pre It was forked a moment ago, with every signal blocked.
[[noreturn]] void serve_launcher(int socket) noexcept;

}  // namespace tandem::launcher
