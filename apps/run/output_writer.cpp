#include "output_writer.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

namespace tandem::launcher {

output_writer::~output_writer() {
  abandon();
  pool_.join();
}

bool output_writer::same_file_as(int other) const noexcept {
  struct stat ours {};
  struct stat others {};
  return ::fstat(target_, &ours) == 0 && ::fstat(other, &others) == 0 &&
         ours.st_dev == others.st_dev && ours.st_ino == others.st_ino;
}

asio::awaitable<int> output_writer::write(std::string text) {
  const auto start = [this](auto handler, std::string what) {
    auto back = asio::get_associated_executor(handler);
    auto work = asio::make_work_guard(back);
    asio::post(pool_, [this, handler = std::move(handler), work = std::move(work),
                       what = std::move(what)]() mutable {
      const int failed = write_all(what);
      asio::post(work.get_executor(),
                 [handler = std::move(handler), failed]() mutable { handler(failed); });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(int)>(
      start, asio::use_awaitable, std::move(text));
}

/// On the writer's thread.
int output_writer::write_all(std::string_view bytes) noexcept {
  thread_ = ::pthread_self();
  writing_ = true;
  int failed = 0;
  while (!bytes.empty() && failed == 0 && !abandoned_) {
    const ssize_t written = ::write(target_, bytes.data(), bytes.size());
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    if (written >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) failed = errno;
    // Another process that shares the open file made it non-blocking.
    pollfd ready{target_, POLLOUT, 0};
    if (failed == 0) ::poll(&ready, 1, 100);
  }
  writing_ = false;
  return failed;
}

void output_writer::abandon() {
  abandoned_ = true;
  // Interrupts a blocked write; repeated, since the signal may arrive between check and write.
  while (writing_) {
    ::pthread_kill(thread_, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace tandem::launcher
