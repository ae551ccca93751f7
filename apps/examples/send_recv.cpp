// Messages in a communicator: around a ring by sendrecv, and to rank 0 by send and recv.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::mixed::make_fabric(meeting, options);
  tandem::communicator all = co_await tandem::make_communicator(*job, options);

  // Every rank sends to the next one and receives from the previous one, without a deadlock.
  const int next = (all.rank() + 1) % all.size();
  const int previous = (all.rank() + all.size() - 1) % all.size();
  const int mine = all.rank() * 10;
  int received = -1;
  const tandem::const_view out(&mine, sizeof(mine));
  const tandem::mutable_view in(&received, sizeof(received));
  co_await all.sendrecv(next, out, previous, in);

  // Messages with different tags do not wait for each other.
  constexpr std::uint16_t result_tag = 7;
  if (all.rank() != 0) {
    co_await all.send(0, in, result_tag);
  } else {
    for (int from = 1; from < all.size(); ++from) {
      co_await all.recv(from, in, result_tag);
      std::cout << "rank " << from << " had received " << received << '\n';
    }
  }
  co_await tandem::barrier(all);  // nobody leaves while others still need this rank

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 4) throw std::runtime_error("start it by: tandem run -n 4 -- send_recv");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
