// Two ends of a channel in one process: a question one way, the answer the other way.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

using peer = std::unique_ptr<tandem::channel>;  // destroying it closes the channel

asio::awaitable<void> ask(peer to) {
  co_await to->send(0, std::string_view("what is the weight?"));
  float weight = 0;
  co_await to->recv(0, tandem::mutable_view(&weight, sizeof(weight)));
  std::cout << "answer: " << weight << '\n';
}

asio::awaitable<void> answer(peer from) {
  std::string question(64, '\0');
  const std::size_t bytes = co_await from->recv(0, tandem::mutable_view(question));
  std::cout << "question: " << question.substr(0, bytes) << '\n';
  const float weight = 0.25F;
  co_await from->send(0, tandem::const_view(&weight, sizeof(weight)));
}

int main() {
  asio::io_context context;
  auto [here, there] = tandem::local::make_pair(context.get_executor(), context.get_executor());
  asio::co_spawn(context, answer(std::move(there)), asio::detached);
  asio::co_spawn(context, ask(std::move(here)), asio::detached);
  tandem::run(context);
}
