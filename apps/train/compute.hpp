#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>

namespace tandem::train {

namespace asio = boost::asio;

/// A thread for a rank's computation, so that transfers progress meanwhile.
class compute_thread {
 public:
  /// Runs `work` on the thread; resumes on the caller's executor and rethrows what it threw. When
  /// cancelled, completes only after work that has begun has ended.
  asio::awaitable<void> run(std::function<void()> work) {
    asio::awaitable<void> task = call(std::move(work));
    co_await asio::co_spawn(pool_, std::move(task), asio::use_awaitable);
  }

 private:
  static asio::awaitable<void> call(std::function<void()> work) {
    work();
    co_return;
  }

  asio::thread_pool pool_{1};
};

}  // namespace tandem::train
