#pragma once

#include <boost/asio/io_context.hpp>

#include "support/coroutine_test.hpp"

namespace tandem::test {

/// An event loop that runs handler by handler, and the result of the work on it.
class stepping {
 public:
  void start(awaitable<void> work) {
    is_over_ = false;
    context.restart();
    running_ = std::make_unique<cancellable>();
    running_->start(context.get_executor(), std::move(work), [this](std::exception_ptr e) {
      is_over_ = true;
      failure_ = as_error(e);
    });
  }
  void cancel() { running_->cancel(); }

  /// Runs at most `count` handlers, or until the work is complete.
  void step(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count && !is_over_; ++i) {
      try {
        if (context.run_one_for(10s) > 0) continue;
        ADD_FAILURE() << "no handler became ready";
      } catch (const std::exception& e) {
        ADD_FAILURE() << "the loop threw: " << e.what();
      }
      return;
    }
  }
  bool finish() {
    step(1'000'000);
    return is_over_;
  }
  bool is_over() const noexcept { return is_over_; }
  const std::optional<error>& failure() const noexcept { return failure_; }

 private:
  std::unique_ptr<cancellable> running_;
  bool is_over_ = true;
  std::optional<error> failure_;

 public:
  asio::io_context context{1};  // destroyed first, with everything that is pending
};

/// The step count after `after`: every count up to 200, then in growing intervals.
inline std::uint64_t next_stop(std::uint64_t after) {
  return after + 1 + (after > 200 ? after / 20 : 0);
}

}  // namespace tandem::test
