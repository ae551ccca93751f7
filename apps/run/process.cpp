#include "process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>
#include <utility>

namespace tandem::launcher {

void throw_system_error(int number, detail::resource wanted, const std::string& what,
                        std::string advice) {
  if (detail::is_exhausted(number, wanted)) throw detail::exhausted(number, wanted, what);
  error_context context;
  context.detail = fmt::format("{}: {}", what, detail::errno_text(number));
  context.advice = std::move(advice);
  throw error(error_code(number, boost::system::system_category()), std::move(context));
}

pipe_ends make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw_system_error(errno, detail::resource::descriptor,
                       "cannot create a pipe for a rank's output");
  }
  return {owned_fd(ends[0]), owned_fd(ends[1])};
}

int exit_status(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string signal_text(int number) {
  return fmt::format("signal {} ({})", number, ::strsignal(number));
}

std::string exit_text(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exit status {}", WEXITSTATUS(wait_status));
  return "killed by " + signal_text(WTERMSIG(wait_status));
}

std::string loss_text(std::size_t rank, int wait_status, int left, int ranks) {
  return fmt::format("rank {}: {}; {} rank{} of {} may go on\n", rank, exit_text(wait_status), left,
                     left == 1 ? "" : "s", ranks);
}

std::string killed_text(std::span<const std::size_t> ranks, bool rest) {
  constexpr std::size_t max_named = 8;
  if (ranks.empty()) {
    return rest ? "; processes that the ranks had started did not end in time and had to be killed"
                : "";
  }
  std::string names;
  for (std::size_t i = 0; i < std::min(ranks.size(), max_named); ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  if (ranks.size() > max_named) names += fmt::format(" and {} more", ranks.size() - max_named);
  return fmt::format("; rank{} {} did not end in time and had to be killed",
                     ranks.size() == 1 ? "" : "s", names);
}

std::optional<rank_exit> first_failure(std::span<const rank_exit> ended) {
  std::optional<rank_exit> first;
  for (const rank_exit& one : ended) {
    if (exit_status(one.wait_status) == 0) continue;
    const bool killed = WIFSIGNALED(one.wait_status);
    if (!first || (killed && !WIFSIGNALED(first->wait_status))) first = one;
  }
  return first;
}

}  // namespace tandem::launcher
