// The ranks of a job add up their gradients, by the algorithm that the plan has chosen.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>
#include <vector>

namespace asio = boost::asio;

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::mixed::make_fabric(meeting, options);
  tandem::communicator all = co_await tandem::make_communicator(*job, options);

  std::vector<float> gradients(1 << 16, static_cast<float>(all.rank() + 1));
  co_await tandem::all_reduce(all, gradients, tandem::reduce_op::sum);

  const std::size_t bytes = tandem::const_view(gradients).bytes;
  const tandem::plan_rule& rule = all.agreed().choose(tandem::collective::all_reduce, bytes);
  std::cout << "sum " << gradients.front() << " by " << tandem::describe(rule) << ": " << rule.why
            << '\n';
  co_await tandem::barrier(all);  // nobody leaves while others still need this rank

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 4)
    throw std::runtime_error("start it by: tandem run -n 4 -- all_reduce");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
