// Islands: NCCL or RCCL among GPUs of one vendor, Tandem between vendors; without a GPU, why not.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

/// Host memory where there is no GPU.
tandem::island_member member_for(int local_rank) {
  const tandem::accelerators nvidia = tandem::find_accelerators(tandem::memory_kind::cuda);
  const tandem::accelerators amd = tandem::find_accelerators(tandem::memory_kind::hip);
  const tandem::accelerators& gpus = nvidia.found.empty() ? amd : nvidia;
  if (gpus.found.empty()) {
    std::cout << "no GPU: " << nvidia.why_none << "; " << amd.why_none << '\n';
    return {tandem::memory_kind::host, 0};
  }
  const auto count = static_cast<int>(gpus.found.size());
  return {gpus.found.front()->kind(), local_rank % count};
}

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::island_member mine = member_for(who.local_rank);
  if (mine.kind == tandem::memory_kind::host) co_return;
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  auto network = co_await tandem::mixed::make_fabric(meeting, options);
  const std::unique_ptr<tandem::fabric> job =
      tandem::devices::make_fabric(std::move(network), options);
  const tandem::buffer memory(std::size_t{1} << 20, mine.kind, mine.device);
  tandem::communicator all = co_await tandem::make_communicator(*job, options, memory.view());

  const auto islands = co_await tandem::make_island_communicator(all, mine);
  const tandem::data_type type = tandem::data_type::float32;
  co_await tandem::all_reduce(*islands, memory.view(), type, tandem::reduce_op::sum);
  const double share = who.rank + 1;  // of the batch
  co_await tandem::weighted_mean(*islands, memory.view(), type, share);
  std::cout << "reduced on " << islands->backend().text << '\n';
  co_await tandem::barrier(all);  // nobody leaves while others still need this rank

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 2) throw std::runtime_error("start it by: tandem run -n 2 -- islands");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
