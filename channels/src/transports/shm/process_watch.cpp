#include "transports/shm/process_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <tandem/error.hpp>
#include <utility>

namespace tandem::shm {
namespace {

constexpr std::chrono::milliseconds interval{250};

}  // namespace

/// Opens a pidfd for each poll (2 us) instead of keeping one for each peer.
bool has_ended(pid_t process) noexcept {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd one{fd, POLLIN, 0};
  const bool ended = ::poll(&one, 1, 0) == 1;
  ::close(fd);
  return ended;
}

void process_watch::start(pid_t process, std::function<void()> on_end) {
  if (process <= 0 || process == ::getpid()) return;
  on_end_ = std::move(on_end);
  poll_later(process);
}

void process_watch::stop() noexcept {
  on_end_ = {};
  timer_.cancel();
}

void process_watch::poll_later(pid_t process) {
  timer_.expires_after(interval);
  timer_.async_wait([weak = weak_from_this(), process](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self || !self->on_end_) return;
    if (!has_ended(process)) return self->poll_later(process);
    const auto handler = std::exchange(self->on_end_, {});
    handler();
  });
}

}  // namespace tandem::shm
