// An encrypted job: its ranks prove one secret, and what they send is encrypted (AES-256-GCM).
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

asio::awaitable<void> run_rank(tandem::launch_info who) {
  // The secret is in TANDEM_SECRET, which tandem run sets, or in a file (TANDEM_SECRET_FILE).
  tandem::settings options = tandem::settings::from_environment();
  options.encrypt = true;
  options.check();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::tcp::make_fabric(meeting, options);
  tandem::channel& peer = co_await job->to(1 - who.rank);

  if (who.rank == 0) {
    co_await peer.send(0, std::string_view("for your eyes only"));
  } else {
    std::string text(64, '\0');
    const std::size_t bytes = co_await peer.recv(0, tandem::mutable_view(text));
    const bool trusted = !meeting->data_key().empty();
    std::cout << (trusted ? "from a rank with our secret: " : "from anybody: ")
              << text.substr(0, bytes) << '\n';
  }

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 2) throw std::runtime_error("start it by: tandem run -n 2 -- encrypted");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
