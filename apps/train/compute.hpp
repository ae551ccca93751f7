#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>

namespace tandem::train {

namespace asio = boost::asio;

/// The thread on which a rank computes, so that transfers go on meanwhile.
class compute_thread {
 public:
  /// Runs `work` there; resumes on the caller's executor with what it threw. Completes late when
  /// cancelled: work that has begun ends first.
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
