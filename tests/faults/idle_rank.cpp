// One of two ranks whose connections are idle for a while: a message each way, nothing for IDLE_S,
// and a message each way again. With "busy", rank 1 blocks its event loop for that time, and rank 0
// waits for its message.
// usage: idle_rank CHANNEL IDLE_S [busy]

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tandem/tandem.hpp>
#include <thread>
#include <vector>

#include "cli/job_fabric.hpp"

namespace asio = boost::asio;

namespace {

void print_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

asio::awaitable<void> exchange(tandem::channel& with, int rank) {
  std::vector<char> bytes(300'000, static_cast<char>('a' + rank));
  const tandem::const_view local(bytes.data(), bytes.size());
  if (rank == 0) co_await with.send(1, local);
  std::vector<char> received(bytes.size());
  const tandem::mutable_view remote(received.data(), received.size());
  co_await with.recv(1, remote);
  if (rank == 1) co_await with.send(1, local);
  if (received.front() != 'b' - rank || received.back() != 'b' - rank) print_line("wrong bytes");
}

asio::awaitable<void> run(std::string kind, std::chrono::milliseconds idle, bool is_busy) {
  const auto who = tandem::find_launch();
  if (!who) throw tandem::error(tandem::errc::bad_input, "no launcher started this");
  const auto options = tandem::settings::from_environment();
  const auto rendezvous = co_await tandem::store::meet(*who, options);
  const auto job = co_await tandem::cli::make_fabric(std::move(kind), rendezvous, options);
  tandem::channel& peer = co_await job->to(1 - who->rank);
  co_await exchange(peer, who->rank);
  print_line("idle");
  asio::steady_timer timer(job->get_executor(), idle);
  if (!is_busy) co_await timer.async_wait(asio::use_awaitable);
  if (is_busy && who->rank == 1) std::this_thread::sleep_for(idle);
  co_await exchange(peer, who->rank);
  // The store has been idle, too; rank 0 leaves last.
  if (who->rank == 1) {
    co_await rendezvous->set("done", "yes");
  } else {
    std::vector<std::string> keys(1, "done");
    co_await rendezvous->get(std::move(keys), options.operation_timeout);
  }
  print_line("done");
  job->close();
  rendezvous->leave();
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_busy = argc == 4 && std::string(argv[3]) == "busy";
  if (argc != 3 && !is_busy) {
    fmt::print(stderr, "usage: idle_rank CHANNEL IDLE_S [busy]\n");
    return 2;
  }
  tandem::set_log_sink(
      [](const tandem::log_record& record) { print_line(fmt::format("log: {}", record.text)); },
      tandem::log_level::warning);
  try {
    asio::io_context context(1);
    const auto idle = std::chrono::milliseconds(static_cast<int>(std::atof(argv[2]) * 1000));
    asio::co_spawn(context, run(argv[1], idle, is_busy), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    tandem::run(context);
  } catch (const std::exception& e) {
    print_line(fmt::format("failed: {}", tandem::describe(e)));
    return 1;
  }
  return 0;
}
