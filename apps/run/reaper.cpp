#include "reaper.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include "descendants.hpp"
#include "reaper_protocol.hpp"

namespace tandem::launcher {
namespace {

/// Sends all of `bytes`; false if the reaper has exited.
bool send_all(int to, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string_view bytes_of(const reaper_request& request) noexcept {
  return {reinterpret_cast<const char*>(&request), sizeof request};
}

/// Sends the header of a start request with its two descriptors.
bool send_start(int to, const reaper_request& request, int output, int error_output) noexcept {
  iovec part{const_cast<reaper_request*>(&request), sizeof request};
  descriptor_pair control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const std::array<int, 2> pair{output, error_output};
  std::memcpy(CMSG_DATA(header), pair.data(), sizeof pair);
  ssize_t sent = -1;
  while ((sent = ::sendmsg(to, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent > 0 && send_all(to, bytes_of(request).substr(static_cast<std::size_t>(sent)));
}

[[noreturn]] void throw_reaper_exited(int number) {
  throw_system_error(number, detail::resource::file,
                     "the reaper process, which starts and ends the ranks, has exited");
}

}  // namespace

reaper::reaper() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_system_error(errno, detail::resource::descriptor,
                       "cannot create the socket to the reaper process");
  }
  owned_fd own(ends[0]), other(ends[1]);
  earlier_children_ = children_of(::getpid());
  // Where the reaper is killed, its descendants become children of this process.
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // The reaper keeps all signals blocked: it reacts to requests, the launcher's exit and SIGKILL.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  process_ = ::fork();
  if (process_ == 0) {
    ::close(own.release());
    serve_launcher(other.get());
  }
  const int failed = process_ < 0 ? errno : 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0)
    throw_system_error(failed, detail::resource::process, "cannot fork the reaper process");
  ::setpgid(process_, process_);  // in both processes, to avoid a race
  socket_ = std::move(own);
}

reaper::~reaper() {
  ::kill(process_, SIGCONT);  // a stopped reaper would not see the end of file
  socket_ = owned_fd();
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
}

pid_t reaper::start(std::span<const std::string> command, std::span<const std::string> environment,
                    int output, int error_output) {
  std::string strings;
  for (const std::string& text : command) strings.append(text.c_str(), text.size() + 1);
  for (const std::string& text : environment) strings.append(text.c_str(), text.size() + 1);
  const reaper_request request{.what = reaper_request::kind::start,
                               .arguments = static_cast<std::uint32_t>(command.size()),
                               .variables = static_cast<std::uint32_t>(environment.size()),
                               .string_bytes = strings.size()};
  if (!send_start(socket_.get(), request, output, error_output) ||
      !send_all(socket_.get(), strings)) {
    throw_reaper_exited(errno);
  }
  const reaper_event answer = wait_for_start();
  if (answer.what == reaper_event::kind::start_failed) {
    throw_system_error(answer.value, detail::resource::process,
                       fmt::format("cannot start {}", command.front()),
                       answer.value == ENOENT   ? "check the name, or give the path of the program"
                       : answer.value == EACCES ? "is it a file that you may execute (chmod +x)?"
                                                : "");
  }
  return answer.process;
}

reaper_event reaper::wait_for_start() {
  for (;;) {
    reaper_event event{};
    const ssize_t got = ::recv(socket_.get(), &event, sizeof event, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof event) throw_reaper_exited(got < 0 ? errno : ECONNRESET);
    if (event.what != reaper_event::kind::ended) return event;
    early_.push_back(event);
  }
}

void reaper::signal(int number) noexcept {
  ::kill(process_, SIGCONT);
  const reaper_request request{.what = reaper_request::kind::signal, .signal = number};
  send_all(socket_.get(), bytes_of(request));
}

void reaper::kill_all() noexcept {
  ::kill(process_, SIGCONT);
  const reaper_request request{.what = reaper_request::kind::kill_all};
  send_all(socket_.get(), bytes_of(request));
}

void reaper::report_empty() noexcept {
  ::kill(process_, SIGCONT);
  const reaper_request request{.what = reaper_request::kind::report_empty};
  send_all(socket_.get(), bytes_of(request));
}

int reaper::kill_orphans() const noexcept {
  ::kill(-process_, SIGKILL);
  if (!proc_shows_our_namespace()) return 0;
  const auto limit = std::chrono::steady_clock::now() + kill_limit;
  for (;;) {
    // Its descriptors are closed before its children change their parent.
    siginfo_t ended{};
    ::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT);
    const bool has_ended = ended.si_pid == process_;
    std::vector<pid_t> orphans = children_of(::getpid());
    std::erase_if(orphans, [this](pid_t child) {
      return child == process_ || std::find(earlier_children_.begin(), earlier_children_.end(),
                                            child) != earlier_children_.end();
    });
    const bool is_done = has_ended && orphans.empty();
    if (is_done || std::chrono::steady_clock::now() > limit) {
      return static_cast<int>(orphans.size());
    }
    for (const pid_t orphan : orphans) ::kill(orphan, SIGKILL);
    for (const pid_t orphan : orphans) ::waitpid(orphan, nullptr, WNOHANG);
    ::usleep(1000);
  }
}

}  // namespace tandem::launcher
