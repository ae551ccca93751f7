// Going on after a loss: a rank dies, the others shrink the job and repeat the step with the mean
// of those that are left. TANDEM_MIN_SURVIVORS, here from `tandem run --min-survivors`, allows it.
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

constexpr int steps = 6;

/// Takes steps until all are done or a rank is lost. Everything that belongs to the lost job ends
/// here: its communicators, then its fabric.
asio::awaitable<void> take_steps(std::shared_ptr<tandem::store> meeting, tandem::settings options,
                                 float own, int& step) {
  const std::unique_ptr<tandem::fabric> job = co_await tandem::mixed::make_fabric(meeting, options);
  tandem::communicator all = co_await tandem::make_communicator(*job, options);
  for (; step < steps; ++step) {
    if (own == 2 && step == 3) _exit(1);  // dies without a word
    std::vector<float> mean(1000, own);
    co_await tandem::all_reduce(all, std::span(mean), tandem::reduce_op::average);
    if (all.rank() == 0 && step == steps - 1) {
      std::cout << "the mean of " << all.size() << " ranks is " << mean.front() << '\n';
    }
  }
  co_await tandem::barrier(all);
  job->close();
}

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const float own = static_cast<float>(who.rank);
  int step = 0;
  while (step < steps) {
    bool lost = false;
    try {
      co_await take_steps(meeting, options, own, step);
    } catch (const tandem::error& failure) {
      if (failure.code() != tandem::errc::peer_lost) throw;
      lost = true;
    }
    if (lost) meeting = co_await meeting->shrink();
  }
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who) throw std::runtime_error("start it by: tandem run -n 4 --min-survivors 2 -- survive");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
