#include "process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>
#include <utility>

namespace tandem::launcher {
namespace {

using detail::resource;

/// @param wanted  what the call asks the system for
[[noreturn]] void fail(int number, resource wanted, const std::string& what,
                       std::string advice = {}) {
  if (detail::is_exhausted(number, wanted)) throw detail::exhausted(number, wanted, what);
  error_context context;
  context.detail = fmt::format("{}: {}", what, std::strerror(number));
  context.advice = std::move(advice);
  throw error(error_code(number, boost::system::system_category()), std::move(context));
}

/// The life of the guard. Between fork and exec only async-signal-safe calls are allowed, and it
/// never execs.
[[noreturn]] void guard(int launcher_alive) {
  ::setpgid(0, 0);
  ::dup2(launcher_alive, 0);
  ::close_range(1, ~0U, 0);
  char byte = 0;
  while (::read(0, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

std::vector<char*> pointers(std::span<const std::string> texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Owns the two attribute objects of `posix_spawn`.
struct spawn_attributes {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t rest;
  spawn_attributes() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&rest);
  }
  ~spawn_attributes() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&rest);
  }
  spawn_attributes(const spawn_attributes&) = delete;
  spawn_attributes& operator=(const spawn_attributes&) = delete;
};

}  // namespace

owned_fd& owned_fd::operator=(owned_fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
owned_fd::~owned_fd() {
  if (fd_ >= 0) ::close(fd_);
}
int owned_fd::release() noexcept {
  return std::exchange(fd_, -1);
}

scoped_soft_limit::scoped_soft_limit(std::uint64_t descriptors) noexcept
    : before_(detail::read_limit(RLIMIT_NOFILE).soft) {
  if (descriptors != before_) set(descriptors);
}

scoped_soft_limit::~scoped_soft_limit() {
  set(before_);
}

void scoped_soft_limit::set(std::uint64_t descriptors) noexcept {
  rlimit now{};
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur == descriptors) return;
  now.rlim_cur = descriptors;
  ::setrlimit(RLIMIT_NOFILE, &now);
}

pipe_ends make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(errno, resource::descriptor, "no pipe for a rank's output");
  return {owned_fd(ends[0]), owned_fd(ends[1])};
}

process_group::process_group() {
  pipe_ends life = make_pipe();
  // The guard keeps the full mask: nothing but SIGKILL and the launcher's end reaches it.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  guard_ = ::fork();
  if (guard_ == 0) guard(life.read.get());
  const int failed = guard_ < 0 ? errno : 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) fail(failed, resource::process, "no process for the job's guard");
  ::setpgid(guard_, guard_);  // here and there: whoever comes first
  alive_ = std::move(life.write);
}

process_group::~process_group() {
  signal(SIGKILL);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void process_group::signal(int number) const noexcept {
  ::kill(-guard_, number);
}

pid_t start_process(const process_group& group, std::span<const std::string> command,
                    std::span<const std::string> environment, int output, int error_output) {
  spawn_attributes attributes;
  ::posix_spawn_file_actions_addopen(&attributes.files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&attributes.files, output, 1);
  ::posix_spawn_file_actions_adddup2(&attributes.files, error_output, 2);
  sigset_t none, handled;
  ::sigemptyset(&none);
  ::sigemptyset(&handled);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE}) {
    ::sigaddset(&handled, number);
  }
  ::posix_spawnattr_setpgroup(&attributes.rest, group.id());
  ::posix_spawnattr_setsigmask(&attributes.rest, &none);
  ::posix_spawnattr_setsigdefault(&attributes.rest, &handled);
  ::posix_spawnattr_setflags(
      &attributes.rest, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t process = -1;
  const int failed =
      ::posix_spawnp(&process, command.front().c_str(), &attributes.files, &attributes.rest,
                     pointers(command).data(), pointers(environment).data());
  if (failed != 0) {
    fail(failed, resource::process, fmt::format("cannot start {}", command.front()),
         failed == ENOENT ? "check the name, or give the path of the program" : "");
  }
  return process;
}

int exit_status(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string how_it_ended(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exit status {}", WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  return fmt::format("killed by signal {} ({})", number, ::strsignal(number));
}

std::optional<rank_end> first_failure(std::span<const rank_end> ended) {
  std::optional<rank_end> first;
  for (const rank_end& one : ended) {
    if (exit_status(one.wait_status) == 0) continue;
    const bool killed = WIFSIGNALED(one.wait_status);
    if (!first || (killed && !WIFSIGNALED(first->wait_status))) first = one;
  }
  return first;
}

}  // namespace tandem::launcher
