#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/parallel.hpp>
#include <tandem/store.hpp>

#include "cli/job_fabric.hpp"
#include "cli/memory_location.hpp"
#include "plan/plan.hpp"

namespace tandem::planner {
namespace {

/// Makes the groups for data in memory `at`.
asio::awaitable<std::vector<group_choice>> agree_on_groups(communicator& all, const plan_options& o,
                                                           cli::memory_location at) {
  const island_member member(at.kind, at.device);
  parallel_layout layout = *o.layout;
  const std::unique_ptr<parallel_groups> made =
      co_await parallel_groups::make(all, std::move(layout), member);
  co_await barrier(all);
  co_return made->agreed();
}

asio::awaitable<void> join(launch_info who, const plan_options& o,
                           std::optional<agreement>& result) {
  const std::shared_ptr<store> meeting = co_await store::meet(who, o.engine);
  std::string kind = o.channel;
  std::unique_ptr<fabric> job = co_await cli::make_fabric(std::move(kind), meeting, o.engine);
  const cli::memory_location at = cli::memory_location_for(o.memory, who.local_rank);
  if (o.memory != name(memory_kind::host)) job = devices::make_fabric(std::move(job), o.engine);
  const const_view like = at.like();
  communicator all = co_await make_communicator(*job, o.engine, like);
  std::vector<group_choice> groups;
  if (o.layout) groups = co_await agree_on_groups(all, o, at);
  // No rank leaves while another still compares plans.
  co_await barrier(all);
  result = agreement{all.agreed(), std::move(groups)};
  job->close();
  meeting->leave();
}

}  // namespace

agreement agreement_of_job(const launch_info& who, const plan_options& o) {
  std::optional<agreement> result;
  std::exception_ptr failure;
  asio::io_context context(1);
  asio::co_spawn(context, join(who, o, result), [&failure](std::exception_ptr f) { failure = f; });
  run(context, {.max_spin = o.engine.spin});
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

}  // namespace tandem::planner
