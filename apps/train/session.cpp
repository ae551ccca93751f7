#include "session.hpp"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>
#include <tandem/launch.hpp>
#include <tandem/store.hpp>

#include "cli/job_fabric.hpp"
#include "progress.hpp"
#include "rail_log.hpp"
#include "trainer.hpp"

namespace tandem::train {
namespace {

std::string job_config_key(int rank) {
  return fmt::format("train/plan/{}", rank);
}

/// Every rank compares its configuration with rank 0's. A rank with a different one reports it to
/// the job and throws.
asio::awaitable<void> compare_configs(store& rendezvous, const job& what) {
  const int rank = rendezvous.who().rank;
  const job_config own = job_config_of(what);
  if (rank == 0) {
    co_await rendezvous.set(job_config_key(0), to_text(own));
    co_return;
  }
  std::vector<std::string> keys{job_config_key(0)};
  const std::vector<std::string> values =
      co_await rendezvous.get(std::move(keys), what.requested.engine.meet_timeout);
  const std::string differs = difference(own, rank, parse_job_config(values.at(0)), 0);
  if (differs.empty()) co_return;
  const error reason(errc::call_mismatch,
                     "the ranks were started with different settings: " + differs,
                     "start all ranks with the same options and text");
  rendezvous.report(reason);
  throw reason;
}

error as_error(std::exception_ptr failure, int rank) {
  try {
    std::rethrow_exception(failure);
  } catch (const error& known) {
    return known;
  } catch (...) {
    error_context context;
    context.rank = rank;
    context.detail = describe(failure);
    return error(make_error_code(errc::bad_input), context);
  }
}

asio::awaitable<void> train_over(const job& what, fabric& over, progress& shown, outcome& result) {
  groups with = co_await make_groups(what, over);
  trainer work(what, over, std::move(with));
  const bool waits = over.size() > 1;
  const progress::rails_source rails = [&work] { return rail_texts(work.rail_status()); };
  const auto after_step = [&shown, waits, &rails](const history& so_far) {
    shown.step(so_far.loss.back(), so_far.tokens_per_step, waits ? so_far.wait_share.back() : -1,
               rails);
  };
  trainer::step_handler handler = after_step;
  co_await work.run(std::move(handler));
  result.ranks = co_await work.collect();
  result.metrics = work.metrics();
  result.kept_steps = work.kept_steps();
}

/// A failure of this rank is propagated to all ranks, then rethrown.
asio::awaitable<void> train_or_fail(const job& what, fabric& over, progress& shown,
                                    outcome& result) {
  std::exception_ptr failure;
  try {
    co_await train_over(what, over, shown, result);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    over.fail(as_error(failure, over.rank()));
    std::rethrow_exception(failure);
  }
  over.close();
}

/// With `--channel mixed`, gives each island a host name of its own, so that islands emulated on
/// one machine do not use shared memory between them.
job job_for_rank(job what, int rank) {
  if (what.requested.channel != "mixed") return what;
  const int island = what.who.at(rank).island;
  settings& engine = what.requested.engine;
  engine.host = fmt::format("{}/{}-{}", host_name(engine), island,
                            what.who.islands()[static_cast<std::size_t>(island)].name);
  return what;
}

asio::awaitable<void> rendezvous_and_train(const job& what, launch_info who, outcome& result) {
  const std::shared_ptr<store> rendezvous = co_await store::meet(who, what.requested.engine);
  co_await compare_configs(*rendezvous, what);
  std::string kind = what.requested.channel;
  const std::unique_ptr<fabric> over =
      co_await cli::make_fabric(std::move(kind), rendezvous, what.requested.engine);
  progress shown(who.rank == 0 ? stdout : nullptr, fmt::format("{} ranks", who.size),
                 what.requested.steps);
  co_await train_or_fail(what, *over, shown, result);
  rendezvous->leave();
}

void run_to_end(asio::io_context& loop, asio::awaitable<void> work, const settings& engine) {
  std::exception_ptr failure;
  asio::co_spawn(loop, std::move(work), [&failure](std::exception_ptr ended) { failure = ended; });
  tandem::run(loop, {.max_spin = engine.spin});
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

outcome train_distributed(const job& what, const launch_info& who) {
  outcome result;
  asio::io_context loop(1);
  const job own = job_for_rank(what, who.rank);
  run_to_end(loop, rendezvous_and_train(own, who, result), own.requested.engine);
  return result;
}

outcome train_single_process(const job& what, const std::string& label) {
  outcome result;
  asio::io_context loop(1);
  const std::vector<std::unique_ptr<fabric>> only =
      local::make_fabrics({loop.get_executor()}, what.requested.engine);
  progress shown(stdout, label, what.requested.steps);
  run_to_end(loop, train_or_fail(what, *only.front(), shown, result), what.requested.engine);
  return result;
}

}  // namespace tandem::train
