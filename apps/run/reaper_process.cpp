// The reaper process. It never execs, and keeps the working directory, which the ranks inherit.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "descendants.hpp"
#include "reaper.hpp"
#include "reaper_protocol.hpp"

namespace tandem::launcher {
namespace {

using std::chrono::steady_clock;

constexpr int rescan_ms = 10;

bool receive_all(int from, void* to, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::recv(from, at, bytes, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Replaces the standard streams by /dev/null, so that readers of the job's output see its end.
void detach_standard_streams() noexcept {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; null >= 0 && fd <= 2; ++fd) ::dup2(null, fd);
  if (null > 2) ::close(null);
}

/// In the forked process: executes the rank's program, or writes errno to `report`.
[[noreturn]] void exec_rank(pid_t reaper, char* const* command, char* const* environment,
                            int output, int error_output, int report) noexcept {
  ::setpgid(0, reaper);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != reaper) ::_exit(127);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction found {};
    const bool may_stay = number == SIGHUP || number == SIGINT || number == SIGQUIT;
    if (::sigaction(number, nullptr, &found) != 0) continue;
    if (may_stay && found.sa_handler == SIG_IGN) continue;
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(output, 1);
  ::dup2(error_output, 2);
  ::execvpe(command[0], command, environment);
  const int failed = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &failed, sizeof failed);
  ::_exit(127);
}

class server {
 public:
  explicit server(int socket) : socket_(socket) {
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    child_signal_fd_ = owned_fd(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  void run();

 private:
  using kind = reaper_event::kind;

  bool serve();
  void start(const reaper_request& request, char* strings, const owned_fd& output,
             const owned_fd& error_output);
  void signal(int number) const;
  int kill_all();
  bool reap();
  void flush() noexcept;
  void wait(int timeout_ms, bool for_requests) noexcept;

  const pid_t id_ = ::getpid();
  const int socket_;
  owned_fd child_signal_fd_;
  std::vector<pid_t> ranks_;  ///< those that have not ended
  std::deque<reaper_event> events_;
  bool reports_empty_ = false;  ///< once no process of the job is left
  bool request_ready_ = false;  ///< a request or the launcher's end of file can be read
};

void server::run() {
  bool launcher_lives = true;
  while (launcher_lives) {
    if (!reap() && std::exchange(reports_empty_, false)) events_.push_back({kind::empty, 0, 0});
    flush();
    wait(-1, true);
    if (request_ready_) launcher_lives = serve();
  }
  kill_all();
}

void server::wait(int timeout_ms, bool for_requests) noexcept {
  const short wanted = events_.empty() ? POLLIN : POLLIN | POLLOUT;
  std::array<pollfd, 2> ready{{{child_signal_fd_.get(), POLLIN, 0}, {socket_, wanted, 0}}};
  ::poll(ready.data(), for_requests ? 2 : 1, timeout_ms);
  request_ready_ = (ready[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
  signalfd_siginfo info;
  while (::read(child_signal_fd_.get(), &info, sizeof info) > 0) {
  }
}

/// Waits for ended children; false if there are no children.
bool server::reap() {
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
    const auto rank = std::find(ranks_.begin(), ranks_.end(), ended);
    if (rank == ranks_.end()) continue;
    ranks_.erase(rank);
    events_.push_back({kind::ended, ended, status});
  }
  return ended == 0;
}

void server::flush() noexcept {
  while (!events_.empty()) {
    const ssize_t sent =
        ::send(socket_, &events_.front(), sizeof(reaper_event), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != sizeof(reaper_event)) return;
    events_.pop_front();
  }
}

/// Serves one request; false if the launcher has exited.
bool server::serve() {
  reaper_request request{};
  iovec part{&request, sizeof request};
  descriptor_pair control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t got = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  if (got < 0 && errno == EINTR) return true;
  if (got != sizeof request) return false;
  std::array<int, 2> pair{-1, -1};
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message)) {
    std::memcpy(pair.data(), CMSG_DATA(header), sizeof pair);
  }
  const owned_fd output(pair[0]), error_output(pair[1]);
  std::string strings(request.string_bytes, '\0');
  if (!receive_all(socket_, strings.data(), strings.size())) return false;
  switch (request.what) {
    case reaper_request::kind::start:
      start(request, strings.data(), output, error_output);
      break;
    case reaper_request::kind::signal:
      signal(request.signal);
      break;
    case reaper_request::kind::report_empty:
      reports_empty_ = true;
      break;
    case reaper_request::kind::kill_all:
      const int left = kill_all();
      events_.push_back({kind::cleaned_up, 0, left});
      break;
  }
  return true;
}

void server::start(const reaper_request& request, char* strings, const owned_fd& output,
                   const owned_fd& error_output) {
  std::vector<char*> command, environment;
  for (std::uint32_t i = 0; i < request.arguments + request.variables; ++i) {
    (i < request.arguments ? command : environment).push_back(strings);
    strings += std::strlen(strings) + 1;
  }
  command.push_back(nullptr);
  environment.push_back(nullptr);
  std::array<int, 2> report{-1, -1};
  int failed = output.get() < 0 || error_output.get() < 0 ? EMFILE
               : ::pipe2(report.data(), O_CLOEXEC) != 0   ? errno
                                                          : 0;
  pid_t process = -1;
  if (failed == 0) {
    process = ::fork();
    if (process == 0) {
      exec_rank(id_, command.data(), environment.data(), output.get(), error_output.get(),
                report[1]);
    }
    if (process < 0) failed = errno;
    ::close(report[1]);
    if (process > 0 && ::read(report[0], &failed, sizeof failed) <= 0) failed = 0;
    ::close(report[0]);
  }
  if (failed != 0) {
    if (process > 0) ::waitpid(process, nullptr, 0);
    events_.push_back({kind::start_failed, 0, failed});
    return;
  }
  ranks_.push_back(process);
  events_.push_back({kind::started, process, 0});
}

/// Descendants outside the ranks' group are looked for twice and before any gets the signal: while
/// a process ends, its children change their parent.
void server::signal(int number) const {
  std::vector<pid_t> escaped;
  if (proc_shows_our_namespace()) {
    for (int times = 0; times < 2; ++times) {
      for (const pid_t target : escaped_targets(descendants_of(id_), id_)) {
        if (std::find(escaped.begin(), escaped.end(), target) == escaped.end()) {
          escaped.push_back(target);
        }
      }
    }
  } else {
    for (const pid_t rank : ranks_) {
      const pid_t group = ::getpgid(rank);
      if (group != id_ && group > 0) escaped.push_back(group == rank ? -rank : rank);
    }
  }
  ::kill(-id_, number);  // the reaper itself blocks it
  for (const pid_t target : escaped) ::kill(target, number);
}

/// Orphans become children of this process, so that no child means no process is left. Returns the
/// number of children after the limit.
int server::kill_all() {
  const auto limit = steady_clock::now() + kill_limit;
  while (reap()) {
    // Without /proc, unknown descendants are reached only by their group and by our own exit.
    if (!proc_shows_our_namespace()) ::kill(-id_, SIGKILL);
    const std::vector<pid_t> children = children_of(id_);
    if (steady_clock::now() > limit) return static_cast<int>(children.size());
    for (const pid_t child : children) ::kill(child, SIGKILL);
    wait(rescan_ms, false);
  }
  return 0;
}

}  // namespace

void serve_launcher(int socket) noexcept {
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // stopped, it would not see the launcher's end
  ::prctl(PR_SET_NAME, reaper_name);
  ::signal(SIGCHLD, SIG_DFL);  // with SIG_IGN, children could not be waited for
  detach_standard_streams();
  server(socket).run();
  ::_exit(0);
}

}  // namespace tandem::launcher
