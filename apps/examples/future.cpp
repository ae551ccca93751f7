// A program with a thread of its own for communication: other threads wait for futures.
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>
#include <thread>

namespace asio = boost::asio;

int main() {
  asio::io_context context;
  auto ends = tandem::local::make_pair(context.get_executor(), context.get_executor());
  std::thread loop([&] { tandem::run(context); });

  const std::string_view message("hello, future");
  std::string text(64, '\0');
  std::future<std::size_t> received = tandem::async(
      context.get_executor(), ends.second->recv(0, tandem::mutable_view(text)), asio::use_future);
  std::future<void> sent =
      tandem::async(context.get_executor(), ends.first->send(0, message), asio::use_future);
  sent.get();  // throws tandem::error if it failed
  std::cout << "received: " << text.substr(0, received.get()) << '\n';

  context.stop();
  loop.join();
}
