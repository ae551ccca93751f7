// A channel over TCP without a job: one end listens at a port, the other connects to it.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

asio::awaitable<void> serve(tandem::tcp::listener& port) {
  const std::unique_ptr<tandem::channel> client = co_await port.accept();
  port.close();  // a listener that is open keeps the context running
  std::string text(64, '\0');
  const std::size_t bytes = co_await client->recv(0, tandem::mutable_view(text));
  std::cout << "received over TCP: " << text.substr(0, bytes) << '\n';
}

asio::awaitable<void> call(std::uint16_t port) {
  const std::unique_ptr<tandem::channel> server = co_await tandem::tcp::connect("127.0.0.1", port);
  co_await server->send(0, std::string_view("hello, listener"));
}

int main() try {
  asio::io_context context;
  // Beyond loopback, a listener needs a job secret in its settings.
  tandem::tcp::listener port(context.get_executor(), "127.0.0.1", 0);
  std::future<void> served = asio::co_spawn(context, serve(port), asio::use_future);
  std::future<void> called = asio::co_spawn(context, call(port.port()), asio::use_future);
  tandem::run(context);
  called.get();
  served.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
