#pragma once

#include <boost/asio/io_context.hpp>

#include "support/coroutine_test.hpp"

namespace tandem::test {

/// A loop that runs handler by handler, and what becomes of the work on it.
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

  /// At most so many handlers, or until the work is over.
  void step(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count && !is_over_; ++i) {
      try {
        if (context.run_one_for(10s) > 0) continue;
        ADD_FAILURE() << "nothing happens any more";
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
  asio::io_context context{1};  // goes first, with all that is pending
};

/// The counts to stop after: each of the first two hundred, then ever wider.
inline std::uint64_t next_stop(std::uint64_t after) {
  return after + 1 + (after > 200 ? after / 20 : 0);
}

}  // namespace tandem::test
