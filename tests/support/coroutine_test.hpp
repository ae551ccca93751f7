#pragma once

#include <gtest/gtest.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tandem/async.hpp>
#include <tandem/detail/cancellable.hpp>
#include <tandem/error.hpp>

namespace tandem::test {

namespace asio = boost::asio;
using asio::awaitable;
using namespace std::chrono_literals;

/// How the loop is run: by Asio alone, or by `tandem::run`, which polls links.
enum class drive { by_asio, by_spinning };

/// Runs `work` on a fresh single-threaded io_context. The test fails if it throws or does not
/// finish within `limit`; then the io_context is destroyed with whatever is pending.
void run_test(awaitable<void> work, drive how = drive::by_asio,
              std::chrono::steady_clock::duration limit = 20s);

/// Like ASSERT, for coroutines, where ASSERT cannot return: throws.
void require(bool condition, const std::string& what);

/// Work concurrent with the test's own coroutine: wait for it, cancel it, get its result.
class background {
 public:
  background(const asio::any_io_executor& executor, awaitable<std::size_t> work);
  background(const asio::any_io_executor& executor, awaitable<void> work);

  bool is_over() const noexcept { return state_->is_over; }
  void cancel(asio::cancellation_type type = asio::cancellation_type::terminal) {
    state_->running.cancel(type);
  }
  /// Its result, or its exception.
  awaitable<std::size_t> result();
  /// The error that it ended with; empty if it succeeded.
  awaitable<std::optional<error>> failure();

 private:
  struct state {
    explicit state(const asio::any_io_executor& executor) : ended(executor) {}
    async_condition ended;
    cancellable running;
    std::exception_ptr failure;
    std::size_t value = 0;
    bool is_over = false;
  };
  std::shared_ptr<state> state_;
};

/// The error that `work` ends with; empty if it succeeds.
awaitable<std::optional<error>> failure_of(awaitable<void> work);
awaitable<std::optional<error>> failure_of(awaitable<std::size_t> work);
/// The error of an exception; the test fails for other exceptions.
std::optional<error> as_error(std::exception_ptr failure);

/// Fails the test unless there is an error with this code whose text contains all `words`.
void expect_error(const std::optional<error>& failure, error_code code,
                  std::initializer_list<std::string> words = {});
/// Expects the error of a cancelled operation.
void expect_aborted(const std::optional<error>& failure);

/// Yields to the loop `count` times.
awaitable<void> turns(int count);

/// The factor TANDEM_TEST_TIMEOUT_FACTOR for time limits on emulated machines.
int timeout_factor();

/// Waits until `condition` holds; throws after `limit` times `timeout_factor()`.
template <class Condition>
awaitable<void> until(Condition condition, std::string what,
                      std::chrono::steady_clock::duration limit = 10s) {
  const auto give_up = std::chrono::steady_clock::now() + limit * timeout_factor();
  while (!condition()) {
    require(std::chrono::steady_clock::now() < give_up, "timed out waiting for: " + what);
    co_await turns(1);
  }
}

}  // namespace tandem::test
