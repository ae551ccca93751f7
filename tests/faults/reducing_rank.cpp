// One rank of a job that reduces the same data in every run: prints a checksum of all results, so
// that two runs can be compared bit by bit. usage: reducing_rank CHANNEL   (under `tandem run`)

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <random>
#include <string>
#include <tandem/detail/crc32c.hpp>
#include <tandem/tandem.hpp>
#include <vector>

#include "cli/job_fabric.hpp"

namespace asio = boost::asio;

namespace {

/// Around the lengths at which plans change; of floats that round in every sum.
constexpr std::size_t lengths[] = {1, 300, 1000, 4000, 20'000, 70'000, 200'000, 300'000, 1'100'000};

std::vector<float> data_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(1000 * rank) + static_cast<unsigned>(count));
  std::vector<float> data(count);
  for (float& each : data) each = static_cast<float>(random() % 1'000'003) / 999'983.0F;
  return data;
}

asio::awaitable<void> reduce_all(tandem::communicator& all, std::size_t count,
                                 std::vector<std::uint32_t>& checksums) {
  const auto n = static_cast<std::size_t>(all.size());
  const auto add = [&checksums](const std::vector<float>& result) {
    checksums.push_back(tandem::crc32c(result.data(), result.size() * sizeof(float)));
  };
  std::vector<float> data = data_of(all.rank(), count);
  const tandem::mutable_view in_place(data);
  co_await tandem::all_reduce(all, in_place, tandem::data_type::float32, tandem::reduce_op::sum);
  add(data);

  data = data_of(all.rank(), count);
  std::vector<float> result(count);
  const tandem::const_view own(data);
  const tandem::mutable_view at_root(result);
  co_await tandem::reduce(all, own, at_root, tandem::data_type::float32, tandem::reduce_op::sum, 1);
  add(result);

  data = data_of(all.rank(), n * count);
  const tandem::const_view blocks(data);
  co_await tandem::reduce_scatter(all, blocks, at_root, tandem::data_type::float32,
                                  tandem::reduce_op::average);
  add(result);
}

asio::awaitable<void> run(std::string kind) {
  const auto who = tandem::find_launch();
  if (!who) throw tandem::error(tandem::errc::bad_input, "no launcher started this");
  const auto options = tandem::settings::from_environment();
  const auto rendezvous = co_await tandem::store::meet(*who, options);
  const auto job = co_await tandem::cli::make_fabric(std::move(kind), rendezvous, options);
  tandem::communicator all = co_await tandem::make_communicator(*job, options);
  std::vector<std::uint32_t> checksums;
  for (const std::size_t count : lengths) co_await reduce_all(all, count, checksums);
  co_await tandem::barrier(all);
  fmt::print("rank {} {:08x}\n", who->rank,
             tandem::crc32c(checksums.data(), checksums.size() * sizeof(std::uint32_t)));
  std::fflush(stdout);
  job->close();
  rendezvous->leave();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: reducing_rank CHANNEL\n");
    return 2;
  }
  try {
    asio::io_context context(1);
    asio::co_spawn(context, run(argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    tandem::run(context);
  } catch (const std::exception& e) {
    fmt::print("failed: {}\n", tandem::describe(e));
    return 1;
  }
  return 0;
}
