// Sending and receiving with callbacks in place of coroutines.
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

void print(std::exception_ptr failure) {
  if (failure) std::cerr << tandem::describe(failure) << '\n';
}

int main() {
  asio::io_context context;
  auto ends = tandem::local::make_pair(context.get_executor(), context.get_executor());
  tandem::channel& here = *ends.first;
  tandem::channel& there = *ends.second;

  // Both must stay valid until the callback of their operation.
  const std::string_view message("hello, callback");
  std::string text(64, '\0');

  tandem::async(there.get_executor(), there.recv(0, tandem::mutable_view(text)),
                [&](std::exception_ptr failure, std::size_t bytes) {
                  print(failure);
                  if (!failure) std::cout << "received: " << text.substr(0, bytes) << '\n';
                  there.close();  // an open channel keeps the context running
                  here.close();
                });
  tandem::async(here.get_executor(), here.send(0, message), print);
  tandem::run(context);
}
