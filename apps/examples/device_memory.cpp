// Messages in GPU memory, ordered with the work of a stream. Says why and ends where there is no
// GPU.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

constexpr std::size_t bytes = std::size_t{1} << 20;

asio::awaitable<void> produce(tandem::fabric& job, tandem::accelerator& gpu) {
  const tandem::buffer memory(bytes, gpu.kind(), gpu.device());
  const tandem::device_stream stream(gpu);
  tandem::device_watch watch(job.get_executor(), gpu);
  gpu.fill(memory.data(), 42, bytes, stream.get());  // or a kernel of the program
  co_await watch.reached(stream.get());              // the stream has produced the data
  tandem::channel& to = co_await job.to(1);
  co_await to.send(0, memory.view());
  job.close();
}

asio::awaitable<void> consume(tandem::fabric& job, tandem::accelerator& gpu) {
  const tandem::buffer memory(bytes, gpu.kind(), gpu.device());
  const tandem::pinned_buffer on_host(gpu, bytes);
  const tandem::device_stream stream(gpu);
  tandem::channel& from = co_await job.to(0);
  const std::size_t received = co_await from.recv(0, memory.view());
  gpu.copy(on_host.data(), memory.data(), received, stream.get());
  gpu.finish(stream.get());
  std::cout << received << " bytes in the memory of " << gpu.text() << ", each "
            << static_cast<int>(on_host.data()[received - 1]) << '\n';
  job.close();
}

int main() try {
  const tandem::accelerators nvidia = tandem::find_accelerators(tandem::memory_kind::cuda);
  const tandem::accelerators amd = tandem::find_accelerators(tandem::memory_kind::hip);
  const tandem::accelerators& gpus = nvidia.found.empty() ? amd : nvidia;
  if (gpus.found.empty()) {
    std::cout << "no GPU: " << nvidia.why_none << "; " << amd.why_none << '\n';
    return 0;
  }
  asio::io_context context;
  auto ranks = tandem::local::make_fabrics({context.get_executor(), context.get_executor()});
  for (auto& rank : ranks) rank = tandem::devices::make_fabric(std::move(rank), {});
  auto consumed = asio::co_spawn(context, consume(*ranks[1], *gpus.found.back()), asio::use_future);
  auto produced =
      asio::co_spawn(context, produce(*ranks[0], *gpus.found.front()), asio::use_future);
  tandem::run(context);
  produced.get();
  consumed.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
