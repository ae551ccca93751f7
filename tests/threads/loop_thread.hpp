#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "support/coroutine_test.hpp"

namespace tandem::test {

/// An event loop on its own thread that runs one coroutine to completion.
class loop_thread {
 public:
  asio::any_io_executor executor() { return context_.get_executor(); }

  void start(awaitable<void> work) {
    watchdog_.async_wait([this](error_code cancelled) {
      if (!cancelled) context_.stop();
    });
    asio::co_spawn(context_, std::move(work), [this](std::exception_ptr e) {
      is_over_ = true;
      if (e) ADD_FAILURE() << "ended with: " << describe(e);
      context_.stop();
    });
    thread_ = std::thread([this] { context_.run(); });
  }
  void join() {
    thread_.join();
    EXPECT_TRUE(is_over_) << "did not finish";
  }

 private:
  bool is_over_ = false;
  asio::io_context context_{1};
  asio::steady_timer watchdog_{context_, 60s};
  std::thread thread_;
};

}  // namespace tandem::test
