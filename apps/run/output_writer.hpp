// Writes to one descriptor of the launcher on a separate thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <string>
#include <string_view>

namespace tandem::launcher {
namespace asio = boost::asio;

/// Writes block while the reader is slow; only this writer's thread waits.
class output_writer {
 public:
  explicit output_writer(int target) : target_(target) {}
  output_writer(const output_writer&) = delete;
  output_writer& operator=(const output_writer&) = delete;
  ~output_writer();

  /// True if both descriptors refer to one pipe, terminal or file, where lines of two writers would
  /// interleave.
  bool same_file_as(int other) const noexcept;
  /// Writes all of `text`, in the order of the calls. Returns 0 or errno.
  asio::awaitable<int> write(std::string text);
  /// Discards what is not written yet and interrupts a blocked write.
  void abandon();
  /// Accepts writes again.
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
