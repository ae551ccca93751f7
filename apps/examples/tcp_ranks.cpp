// Two ranks meet through the store that their launcher names, and are connected by TCP.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <string>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::tcp::make_fabric(meeting, options);

  const int other = 1 - who.rank;
  tandem::channel& peer = co_await job->to(other);
  if (who.rank == 0) {
    co_await peer.send(0, std::string_view("hello, rank 1"));
  } else {
    std::string text(64, '\0');
    const std::size_t bytes = co_await peer.recv(0, tandem::mutable_view(text));
    std::cout << "from rank " << other << ": " << text.substr(0, bytes) << '\n';
  }

  job->close();
  meeting->leave();
}

int main() try {
  // tandem run, torchrun, mpirun and srun all describe the job in environment variables.
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 2) throw std::runtime_error("start it by: tandem run -n 2 -- tcp_ranks");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
