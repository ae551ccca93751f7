// What a newer Boost has and Debian 12's has not: asio::cancel_after, on messages.
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/version.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto limit = 20ms;
int failed = 0;

void expect(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failed;
}

/// What the operation threw.
template <class Awaitable>
asio::awaitable<boost::system::error_code> code_of(Awaitable work) {
  try {
    co_await std::move(work);
  } catch (const boost::system::system_error& failure) {
    co_return failure.code();
  }
  co_return boost::system::error_code();
}

asio::awaitable<void> run(tandem::channel& here, tandem::channel& there) {
  const auto executor = co_await asio::this_coro::executor;
  int sent = 7, received = 0;
  const tandem::const_view out(&sent, sizeof sent);
  const tandem::mutable_view in(&received, sizeof received);

  // Terminal, its default: a receive without a message ends, and has no effect.
  auto late =
      tandem::async(executor, here.recv(0, in), asio::cancel_after(limit, asio::use_awaitable));
  expect(co_await code_of(std::move(late)) == asio::error::operation_aborted, "a receive ends");

  // The next one gets the next message; a limit that is not reached does nothing.
  co_await there.send(0, out);
  const std::size_t bytes = co_await tandem::async(executor, here.recv(0, in),
                                                   asio::cancel_after(10s, asio::use_awaitable));
  expect(bytes == sizeof sent && received == sent, "the next receive gets the message");

  // Total, for an operation that honours it.
  auto total =
      tandem::async(executor, tandem::enable_total_cancellation(here.recv(0, in)),
                    asio::cancel_after(limit, asio::cancellation_type::total, asio::use_awaitable));
  expect(co_await code_of(std::move(total)) == asio::error::operation_aborted,
         "total cancellation ends a receive that nothing has reached");

  // Any other token: a callback.
  boost::system::error_code reported;
  asio::steady_timer called(executor, 10s);
  tandem::async(executor, here.recv(0, in),
                asio::cancel_after(limit, [&](const std::exception_ptr& failure, std::size_t) {
                  try {
                    if (failure) std::rethrow_exception(failure);
                  } catch (const boost::system::system_error& known) {
                    reported = known.code();
                  }
                  called.cancel();
                }));
  co_await code_of(called.async_wait(asio::use_awaitable));
  expect(reported == asio::error::operation_aborted, "a callback is called");
}

}  // namespace

int main() {
  asio::io_context context;
  const auto executor = context.get_executor();
  const auto ends = tandem::local::make_pair(executor, executor);
  std::exception_ptr failure;
  asio::co_spawn(context, run(*ends.first, *ends.second), [&](std::exception_ptr ended) {
    failure = std::move(ended);
    ends.first->close();
    ends.second->close();
  });
  context.run();
  if (failure) std::rethrow_exception(failure);
  if (failed == 0) std::printf("Boost %d: cancel_after works\n", BOOST_VERSION);
  return failed;
}
