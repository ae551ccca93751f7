// Descriptors of the launcher, and exit statuses of processes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tandem/detail/owned_descriptor.hpp>
#include <tandem/detail/resources.hpp>

namespace tandem::launcher {

using owned_fd = detail::owned_descriptor;

struct pipe_ends {
  owned_fd read, write;
};
/// A pipe with close-on-exec ends.
pipe_ends make_pipe();

/// Throws `errc::limit_exceeded`, naming the limit, if errno `number` means that the resource
/// `wanted` is exhausted; else `tandem::error` with the system's code: "what: No such file or
/// directory".
[[noreturn]] void throw_system_error(int number, detail::resource wanted, const std::string& what,
                                     std::string advice = {});

/// The end of one rank, with its status from `waitpid`.
struct rank_exit {
  int rank;
  int wait_status;
};
/// 0 to 255; 128 + signal if a signal ended the process.
int exit_status(int wait_status) noexcept;
/// "exit status 3", "killed by signal 9 (Killed)".
std::string exit_text(int wait_status);
/// "rank 1: killed by signal 9 (Killed); 3 ranks of 4 may go on", a line.
std::string loss_text(std::size_t rank, int wait_status, int left, int ranks);
/// "signal 9 (Killed)".
std::string signal_text(int number);
/// "; rank 1 did not end in time and had to be killed"; empty if none had to be. @param rest  the
/// ranks had ended, and what they had started had to be killed
std::string killed_text(std::span<const std::size_t> ranks, bool rest);
/// The rank that failed first among those that ended at about the same time. One killed by a signal
/// precedes one that exited, since ranks that lose a peer exit by themselves. Empty if none failed.
std::optional<rank_exit> first_failure(std::span<const rank_exit> ended);

}  // namespace tandem::launcher
