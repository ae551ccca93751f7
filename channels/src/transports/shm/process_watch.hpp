#pragma once

#include <sys/types.h>

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

namespace tandem::shm {

namespace asio = boost::asio;

/// Polls four times a second whether another process of this host has ended. The end of its socket
/// reports that at once, but not while a child forked without the atfork handlers holds the socket.
class process_watch : public std::enable_shared_from_this<process_watch> {
 public:
  explicit process_watch(const asio::any_io_executor& executor) : timer_(executor) {}
  /// Calls `on_end` once, on the executor, unless `stop` is called before. Process 0 (of another
  /// PID namespace) and this process are not watched.
  void start(pid_t process, std::function<void()> on_end);
  void stop() noexcept;

 private:
  void poll_later(pid_t process);

  asio::steady_timer timer_;
  std::function<void()> on_end_;
};

/// Whether a process has ended, reaped or not.
bool has_ended(pid_t process) noexcept;

}  // namespace tandem::shm
