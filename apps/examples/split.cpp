// Sub-communicators: even and odd ranks form a group each, which adds up its numbers.
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

  const int colour = all.rank() % 2;
  const std::unique_ptr<tandem::communicator> group = co_await all.split(colour);
  int sum = all.rank();
  const tandem::mutable_view view(&sum, sizeof(sum));
  co_await tandem::all_reduce(*group, view, tandem::data_type::int32, tandem::reduce_op::sum);
  std::cout << (colour == 0 ? "even" : "odd") << " ranks: sum " << sum << '\n';
  co_await tandem::barrier(all);  // nobody leaves while others still need this rank

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 4) throw std::runtime_error("start it by: tandem run -n 4 -- split");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
