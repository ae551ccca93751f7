// Parallel groups: gradients are averaged in data groups, activations move along pipelines.
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

  // Ranks with GPUs pass {tandem::memory_kind::cuda, device}; groups inside an island then use
  // NCCL.
  const tandem::island_member mine(tandem::memory_kind::host, 0);
  auto layout = tandem::parallel_layout::parse("pipeline=2,data=2");
  const auto groups = co_await tandem::parallel_groups::make(all, std::move(layout), mine);
  if (who.rank == 0) std::cout << groups->text();

  tandem::communicator& data = groups->group("data");
  std::vector<float> gradients(256, static_cast<float>(who.rank));
  const tandem::mutable_view view(gradients);
  co_await tandem::all_reduce(data, view, tandem::data_type::float32, tandem::reduce_op::average);

  tandem::communicator& pipeline = groups->group("pipeline");
  if (pipeline.rank() == 0) {
    co_await pipeline.send(1, view);
  } else {
    const float average = gradients.front();
    co_await pipeline.recv(0, view);
    std::cout << "average here " << average << ", in the stage before " << gradients.front()
              << '\n';
  }
  co_await tandem::barrier(all);  // nobody leaves while others still need this rank

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 4)
    throw std::runtime_error("start it by: tandem run -n 4 -- parallel_groups");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
