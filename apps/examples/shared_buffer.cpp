// Long messages between processes of one host: memory that the peer can map is copied once.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <cstring>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::shm::make_fabric(meeting, options);
  tandem::communicator all = co_await tandem::make_communicator(*job, options);

  tandem::shm::shared_buffer memory(std::size_t{16} << 20);
  if (all.rank() == 0) std::memset(memory.data(), 42, memory.size());
  co_await tandem::broadcast(all, memory.view(), 0);
  const auto good = std::count(memory.data(), memory.data() + memory.size(), std::byte{42});
  std::cout << good << " bytes of rank 0's memory are here\n";
  co_await tandem::barrier(all);  // the memory stays until the others have read it

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 2)
    throw std::runtime_error("start it by: tandem run -n 2 -- shared_buffer");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
