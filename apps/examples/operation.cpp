// Sending and receiving without coroutines: the program owns the operations and is called back.
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

struct transfer {
  explicit transfer(asio::io_context& context)
      : ends(tandem::local::make_pair(context.get_executor(), context.get_executor())) {}

  std::string_view message = "hello, operation";
  std::string text = std::string(64, '\0');
  int pending = 2;
  std::pair<std::unique_ptr<tandem::channel>, std::unique_ptr<tandem::channel>> ends;
  tandem::operation send, recv;  // they must not move while they are pending
};

void complete(tandem::operation& op) {
  auto& of = *static_cast<transfer*>(op.owner);
  if (op.failure) std::cerr << op.failure->what() << '\n';
  if (!op.result && &op == &of.recv) {
    std::cout << "received: " << of.text.substr(0, op.bytes) << '\n';
  }
  if (--of.pending > 0) return;
  of.ends.first->close();  // an open channel keeps the context running
  of.ends.second->close();
}

void start(tandem::channel& on, tandem::operation& op) {
  op.complete = complete;
  if (on.start(op)) complete(op);  // it is over already, and nobody else will say so
}

int main() {
  asio::io_context context;
  transfer one(context);
  one.recv.what = tandem::operation::kind::recv;
  one.recv.view = one.text;
  one.recv.owner = &one;
  one.send.what = tandem::operation::kind::send;
  // A view to write to stands for both directions; a send only reads it.
  one.send.view = {const_cast<char*>(one.message.data()), one.message.size()};
  one.send.owner = &one;
  start(*one.ends.second, one.recv);
  start(*one.ends.first, one.send);
  tandem::run(context);
}
