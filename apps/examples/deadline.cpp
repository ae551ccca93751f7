// A deadline: a receive that nobody answers ends in time, and the error says what it waited for.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<void> receive(tandem::channel& from, std::string& text) {
  const std::size_t bytes = co_await from.recv(0, tandem::mutable_view(text));
  text.resize(bytes);
}

asio::awaitable<void> wait_for_answer(tandem::channel& here, tandem::channel& there) {
  std::string text(64, '\0');
  try {
    auto answer = receive(here, text);
    co_await tandem::with_deadline(50ms, std::move(answer), "the answer", "ask again");
  } catch (const tandem::error& failure) {
    if (failure.code() != tandem::errc::timed_out) throw;
    std::cout << "as expected: " << failure.what() << '\n';
  }

  // Only that receive has ended; the channel works as before.
  co_await there.send(0, std::string_view("a late answer"));
  co_await receive(here, text);
  std::cout << "then: " << text << '\n';
  here.close();
  there.close();
}

int main() try {
  asio::io_context context;
  auto ends = tandem::local::make_pair(context.get_executor(), context.get_executor());
  std::future<void> done =
      asio::co_spawn(context, wait_for_answer(*ends.first, *ends.second), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
