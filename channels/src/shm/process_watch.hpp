#pragma once

#include <sys/types.h>

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

namespace tandem::shm {

namespace asio = boost::asio;

/// Looks four times a second whether another process of this host has ended. The end of its socket
/// says so at once, but not while a child that it forked without the handlers of fork() holds it.
class process_watch : public std::enable_shared_from_this<process_watch> {
 public:
  explicit process_watch(const asio::any_io_executor& executor) : timer_(executor) {}
  /// Calls `on_end` once, on the executor, unless `stop` comes before. A process that has no number
  /// here (0, of another PID namespace), and this one, are not watched.
  void start(pid_t process, std::function<void()> on_end);
  void stop() noexcept;

 private:
  void look_again(pid_t process);

  asio::steady_timer timer_;
  std::function<void()> on_end_;
};

/// A process that has ended, reaped or not.
bool has_ended(pid_t process) noexcept;

}  // namespace tandem::shm
