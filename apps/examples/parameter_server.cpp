// One-sided access: workers read the parameters of rank 0 and write their gradients into its
// memory, each into a part of its own; a notification tells rank 0 that one has arrived.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <cmath>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

constexpr std::size_t count = 1000;
constexpr std::size_t bytes = count * sizeof(float);
constexpr int steps = 20;

/// The memory of rank 0: the parameters, then a gradient of each worker.
asio::awaitable<void> serve(tandem::window& shared, std::vector<float>& memory, int workers) {
  for (int step = 0; step < steps * workers; ++step) {
    const tandem::window_notification arrived = co_await shared.notified();
    const float* const gradient = memory.data() + arrived.offset / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) memory[i] -= 0.5f * gradient[i];
  }
}

/// Pulls all parameters towards 3.
asio::awaitable<void> work(tandem::window& shared, int worker) {
  std::vector<float> parameters(count), gradient(count);
  for (std::uint64_t step = 0; step < steps; ++step) {
    co_await shared.get(0, 0, parameters);
    for (std::size_t i = 0; i < count; ++i) gradient[i] = parameters[i] - 3;
    co_await shared.put(0, static_cast<std::size_t>(worker) * bytes, gradient, step);
    co_await shared.flush(0);
  }
}

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::mixed::make_fabric(meeting, options);
  tandem::communicator all(*job, options);
  std::vector<float> memory(all.rank() == 0 ? count * static_cast<std::size_t>(all.size()) : 0);
  tandem::window shared = co_await tandem::make_window(all, memory);
  if (all.rank() == 0) {
    co_await serve(shared, memory, all.size() - 1);
  } else {
    co_await work(shared, all.rank());
  }
  co_await shared.close();
  if (all.rank() == 0) std::cout << "the parameters are about " << std::round(memory[0]) << '\n';
  co_await tandem::barrier(all);
  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who) throw std::runtime_error("start it by: tandem run -n 3 -- parameter_server");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
