// Several NICs as one channel, with memory that is registered with them once.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

asio::awaitable<void> run_rank(tandem::launch_info who) {
  tandem::settings options = tandem::settings::from_environment();
  if (options.rails.empty()) options.rails = "lo";  // TANDEM_RAILS: "auto", or "eth0,eth1"
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::rails::make_fabric(meeting, options);
  tandem::communicator all(*job, options);

  // Without an RDMA NIC nothing is registered, and the same code works: its messages are copied.
  const tandem::buffer memory(std::size_t{4} << 20);
  const tandem::region held = job->register_memory(memory.view());
  for (int round = 0; round < 3; ++round) {
    if (who.rank == 0) {
      memory.as<int>().back() = round;
      co_await all.send(1, held.view());
    } else {
      const std::size_t bytes = co_await all.recv(0, held.view());
      std::cout << "round " << memory.as<int>().back() << ": " << bytes << " bytes, "
                << (held ? held.describe() : "not registered") << '\n';
    }
  }
  const tandem::channel& peer = co_await job->to(1 - who.rank);
  for (const tandem::rail_stats& rail : peer.rails()) {
    std::cout << "rail " << rail.name << " is " << rail.state << '\n';
  }
  co_await tandem::barrier(all);  // nobody leaves while others still need this rank

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 2)
    throw std::runtime_error("start it by: tandem run -n 2 -- registered_memory");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
