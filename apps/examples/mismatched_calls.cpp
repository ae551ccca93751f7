// Ranks that make different calls: both get an error that names both, and none waits forever.
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

  std::vector<float> data(all.rank() == 0 ? 512 : 1024);
  const tandem::mutable_view view(data);
  try {
    co_await tandem::all_reduce(all, view, tandem::data_type::float32, tandem::reduce_op::sum);
  } catch (const tandem::error& failure) {
    if (failure.code() != tandem::errc::call_mismatch) throw;
    std::cout << "as expected: " << failure.what() << '\n';
  }

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 2)
    throw std::runtime_error("start it by: tandem run -n 2 -- mismatched_calls");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
