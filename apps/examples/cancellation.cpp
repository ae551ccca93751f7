// Cancelling a receive by a cancellation slot of Asio: its view is no longer in use afterwards.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;

int main() {
  asio::io_context context;
  auto ends = tandem::local::make_pair(context.get_executor(), context.get_executor());
  std::string text(64, '\0');

  asio::cancellation_signal stop;
  const auto done = [&](std::exception_ptr failure, std::size_t bytes) {
    if (failure) {
      std::cout << "cancelled: " << tandem::describe(failure) << '\n';
    } else {
      std::cout << "received " << bytes << " bytes\n";
    }
    ends.first->close();
    ends.second->close();
  };
  tandem::async(context.get_executor(), ends.first->recv(0, tandem::mutable_view(text)),
                asio::bind_cancellation_slot(stop.slot(), done));

  asio::steady_timer timer(context, 50ms);
  timer.async_wait(
      [&](const tandem::error_code&) { stop.emit(asio::cancellation_type::terminal); });
  tandem::run(context);
}
