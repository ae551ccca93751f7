#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <mutex>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>
#include <tandem/store.hpp>
#include <thread>

#include "cli/job_fabric.hpp"
#include "perf/measure.hpp"
#include "perf/report.hpp"

namespace tandem::perf {

namespace {

/// Outcome of a rank: its wrong bytes, or the error that ended it.
struct outcome {
  std::uint64_t wrong = 0;
  std::exception_ptr failure;
};

void run_loop(asio::io_context& context, asio::awaitable<std::uint64_t> work,
              const spin_policy& spin, outcome& result) {
  const auto done = [&result](std::exception_ptr failure, std::uint64_t wrong) {
    result = {wrong, failure};
  };
  asio::co_spawn(context, std::move(work), done);
  run(context, spin);
}

asio::awaitable<std::uint64_t> run_over_network(launch_info who, const perf_options& o,
                                                report* out) {
  const std::shared_ptr<store> meeting = co_await store::meet(who, o.engine);
  std::string kind = o.channel;
  std::unique_ptr<fabric> job = co_await cli::make_fabric(std::move(kind), meeting, o.engine);
  const memory_location at = memory_location_for(o.memory, who.local_rank);
  if (o.on_devices()) job = devices::make_fabric(std::move(job), o.engine);
  const std::uint64_t wrong = co_await measure(*job, o, at, out);
  job->close();
  meeting->leave();
  co_return wrong;
}

/// Runs `measure`; a failure is reported to the other ranks, whose threads would wait forever.
asio::awaitable<std::uint64_t> run_local_rank(fabric& job, const perf_options& o, report* out) {
  std::exception_ptr failure;
  try {
    const memory_location at = memory_location_for(o.memory, job.rank());
    const std::uint64_t wrong = co_await measure(job, o, at, out);
    job.close();
    co_return wrong;
  } catch (...) {
    failure = std::current_exception();
  }
  job.fail(error(errc::peer_lost, fmt::format("rank {}: {}", job.rank(), describe(failure))));
  std::rethrow_exception(failure);
}

}  // namespace

std::uint64_t run_rank(const launch_info& who, const perf_options& o) {
  std::unique_ptr<report> out;
  if (who.rank == 0) out = std::make_unique<report>(o);
  outcome result;
  asio::io_context context(1);
  run_loop(context, run_over_network(who, o, out.get()),
           spin_policy_for(who.local_size, o.engine.spin), result);
  if (result.failure) std::rethrow_exception(result.failure);
  if (out) out->finish();
  return result.wrong;
}

std::uint64_t run_local(int ranks, const perf_options& o) {
  report out(o);
  std::vector<std::unique_ptr<asio::io_context>> contexts;
  std::vector<asio::any_io_executor> executors;
  for (int rank = 0; rank < ranks; ++rank) {
    contexts.push_back(std::make_unique<asio::io_context>());
    executors.push_back(contexts.back()->get_executor());
  }
  std::vector<std::unique_ptr<fabric>> jobs = local::make_fabrics(executors, o.engine);
  if (o.on_devices()) {
    for (std::unique_ptr<fabric>& job : jobs) {
      job = devices::make_fabric(std::move(job), o.engine);
    }
  }
  std::mutex mutex;
  outcome first;
  std::vector<std::thread> threads;
  const auto run_rank = [&](int rank) {
    outcome result;
    run_loop(*contexts[rank], run_local_rank(*jobs[rank], o, rank == 0 ? &out : nullptr),
             spin_policy_for(ranks, o.engine.spin), result);
    const std::lock_guard lock(mutex);
    if (!first.failure) first = result;
  };
  try {
    detail::start_threads(fmt::format("no thread for each of {} ranks", ranks), [&] {
      for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
    });
  } catch (const error&) {
    first.failure = std::current_exception();
    for (const auto& context : contexts) context->stop();  // running ones would wait for it
  }
  for (std::thread& one : threads) one.join();
  if (first.failure) std::rethrow_exception(first.failure);
  out.finish();
  return first.wrong;
}

}  // namespace tandem::perf
