// One of the launcher's own descriptors, written by a thread of its own.
#pragma once

#include <pthread.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <string>
#include <string_view>

namespace tandem::launcher {
namespace asio = boost::asio;

/// Writes block while the reader is slow: they hold up this writer's thread and nothing else.
class output_writer {
 public:
  explicit output_writer(int target) : target_(target) {}
  output_writer(const output_writer&) = delete;
  output_writer& operator=(const output_writer&) = delete;
  ~output_writer();

  /// Whether both descriptors lead to one pipe, terminal or file; lines from two threads could mix.
  bool same_file_as(int other) const noexcept;
  /// Writes all of it, in the order of the calls. Returns 0, or errno.
  asio::awaitable<int> write(std::string text);
  /// Gives up what is not written yet, also a write that blocks.
  void abandon();
  /// Writes again from now on.
  void resume() noexcept { abandoned_ = false; }

 private:
  int write_all(std::string_view bytes) noexcept;

  int target_;
  std::atomic<bool> abandoned_ = false;
  std::atomic<bool> writing_ = false;
  std::atomic<pthread_t> thread_{};
  asio::thread_pool pool_{1};
};

}  // namespace tandem::launcher
