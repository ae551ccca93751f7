#include "plan/job.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <tandem/channels/devices.hpp>
#include <tandem/collectives/agree.hpp>
#include <tandem/collectives/collectives.hpp>
#include <tandem/run.hpp>
#include <tandem/store.hpp>

#include "cli/job_fabric.hpp"
#include "cli/memory_place.hpp"

namespace tandem::planner {
namespace {

asio::awaitable<void> join(launch_info who, const plan_options& o, std::optional<plan>& result) {
  const std::shared_ptr<store> meeting = co_await store::meet(who, o.engine);
  std::string kind = o.channel;
  std::unique_ptr<fabric> job = co_await cli::make_fabric(std::move(kind), meeting, o.engine);
  const cli::place at = cli::place_for(o.memory, who.local_rank);
  if (o.memory != name(memory_kind::host)) job = devices::make_fabric(std::move(job), o.engine);
  const const_view like = at.like();
  communicator all = co_await make_communicator(*job, o.engine, like);
  // Nobody leaves while another is still comparing.
  co_await barrier(all);
  result = all.agreed();
  job->close();
  meeting->leave();
}

}  // namespace

plan plan_of_job(const launch_info& who, const plan_options& o) {
  std::optional<plan> result;
  std::exception_ptr failure;
  asio::io_context context(1);
  asio::co_spawn(context, join(who, o, result), [&failure](std::exception_ptr f) { failure = f; });
  run(context, {.most = o.engine.spin});
  if (failure) std::rethrow_exception(failure);
  return *result;
}

}  // namespace tandem::planner
