#include "support/coroutine_test.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <stdexcept>
#include <tandem/async.hpp>

namespace tandem::test {

int timeout_factor() {
  const char* const text = std::getenv("TANDEM_TEST_TIMEOUT_FACTOR");
  return text != nullptr ? std::max(std::atoi(text), 1) : 1;
}

void run_test(awaitable<void> work, drive how, std::chrono::steady_clock::duration limit) {
  bool is_over = false;
  std::exception_ptr failure;
  asio::io_context context{1};
  asio::steady_timer watchdog(context, limit * timeout_factor());
  watchdog.async_wait([&context](error_code cancelled) {
    if (!cancelled) context.stop();
  });
  asio::co_spawn(context, std::move(work), [&](std::exception_ptr e) {
    failure = e;
    is_over = true;
    context.stop();
  });
  if (how == drive::by_spinning) {
    run(context);
  } else {
    context.run();
  }
  EXPECT_TRUE(is_over) << "did not finish";
  if (failure) ADD_FAILURE() << "ended with: " << describe(failure);
}

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

namespace {

awaitable<std::size_t> without_result(awaitable<void> work) {
  co_await std::move(work);
  co_return 0;
}

awaitable<void> keep_result(awaitable<std::size_t> work, std::size_t& result) {
  result = co_await std::move(work);
}

awaitable<void> ignore_result(awaitable<std::size_t> work) {
  co_await std::move(work);
}

}  // namespace

background::background(const asio::any_io_executor& executor, awaitable<std::size_t> work)
    : state_(std::make_shared<state>(executor)) {
  state_->running.start(executor, keep_result(std::move(work), state_->value),
                        [s = state_](std::exception_ptr e) {
                          s->failure = e;
                          s->is_over = true;
                          s->ended.notify_all();
                        });
}

background::background(const asio::any_io_executor& executor, awaitable<void> work)
    : background(executor, without_result(std::move(work))) {}

awaitable<std::size_t> background::result() {
  const std::shared_ptr<state> s = state_;
  while (!s->is_over) co_await s->ended.wait();
  if (s->failure) std::rethrow_exception(s->failure);
  co_return s->value;
}

awaitable<std::optional<error>> background::failure() {
  const std::shared_ptr<state> s = state_;
  while (!s->is_over) co_await s->ended.wait();
  co_return as_error(s->failure);
}

std::optional<error> as_error(std::exception_ptr failure) {
  if (!failure) return {};
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    return e;
  } catch (const boost::system::system_error& e) {
    return error(e.code());
  } catch (const std::exception& e) {
    ADD_FAILURE() << "not a tandem::error: " << e.what();
    return error(error_code(1, boost::system::generic_category()));
  }
}

awaitable<std::optional<error>> failure_of(awaitable<void> work) {
  std::exception_ptr caught;
  try {
    co_await std::move(work);
  } catch (...) {
    caught = std::current_exception();
  }
  co_return as_error(caught);
}

awaitable<std::optional<error>> failure_of(awaitable<std::size_t> work) {
  return failure_of(ignore_result(std::move(work)));
}

void expect_error(const std::optional<error>& failure, error_code code,
                  std::initializer_list<std::string> words) {
  if (!failure) {
    ADD_FAILURE() << "succeeded instead of: " << code.message();
    return;
  }
  EXPECT_EQ(failure->code(), code) << failure->what();
  const std::string text = failure->what();
  EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one line: " << text;
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
  }
}

void expect_aborted(const std::optional<error>& failure) {
  expect_error(failure, asio::error::operation_aborted);
}

awaitable<void> turns(int count) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (int i = 0; i < count; ++i) co_await asio::post(executor, asio::use_awaitable);
}

}  // namespace tandem::test
