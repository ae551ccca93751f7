// Messages in GPU memory, ordered with the work of a stream. Without a GPU it says why and ends.
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
}

asio::awaitable<void> run(tandem::fabric& from, tandem::fabric& to,
                          const tandem::accelerators& gpus) {
  std::vector<asio::awaitable<void>> both;
  both.push_back(produce(from, *gpus.found.front()));
  both.push_back(consume(to, *gpus.found.back()));
  co_await tandem::when_all(std::move(both));
  from.close();
  to.close();
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
  auto done = asio::co_spawn(context, run(*ranks[0], *ranks[1], gpus), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
