#include "session.hpp"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <tandem/channels/local.hpp>
#include <tandem/collectives/collectives.hpp>
#include <tandem/host.hpp>
#include <tandem/run.hpp>
#include <tandem/store.hpp>

#include "cli/job_fabric.hpp"
#include "progress.hpp"
#include "rail_text.hpp"
#include "trainer.hpp"

namespace tandem::train {
namespace {

std::string plan_key(int rank) {
  return fmt::format("train/plan/{}", rank);
}

/// Every rank compares its configuration with rank 0's. A rank with a different one reports it to
/// the job and throws.
asio::awaitable<void> agree(store& meeting, const job& what) {
  const int rank = meeting.who().rank;
  const plan mine = plan_of(what);
  if (rank == 0) {
    co_await meeting.set(plan_key(0), to_text(mine));
    co_return;
  }
  std::vector<std::string> keys{plan_key(0)};
  const std::vector<std::string> values =
      co_await meeting.get(std::move(keys), what.wanted.engine.meet_timeout);
  const std::string differs = difference(mine, rank, plan_from(values.at(0)), 0);
  if (differs.empty()) co_return;
  const error reason(errc::call_mismatch,
                     "the ranks were started with different settings: " + differs,
                     "start all ranks with the same options and text");
  meeting.report(reason);
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
  const progress::rails_source rails = [&work] { return rail_texts(work.rails_now()); };
  const auto after_step = [&shown, waits, &rails](const history& so_far) {
    shown.step(so_far.loss.back(), so_far.tokens_per_step, waits ? so_far.wait_share.back() : -1,
               rails);
  };
  trainer::step_handler handler = after_step;
  co_await work.run(std::move(handler));
  result.ranks = co_await work.collect();
  result.course = work.course();
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
job as_rank(job what, int rank) {
  if (what.wanted.channel != "mixed") return what;
  const int island = what.who.at(rank).island;
  settings& engine = what.wanted.engine;
  engine.host = fmt::format("{}/{}-{}", host_name(engine), island,
                            what.who.islands()[static_cast<std::size_t>(island)].name);
  return what;
}

asio::awaitable<void> meet_and_train(const job& what, launch_info who, outcome& result) {
  const std::shared_ptr<store> meeting = co_await store::meet(who, what.wanted.engine);
  co_await agree(*meeting, what);
  std::string kind = what.wanted.channel;
  const std::unique_ptr<fabric> over =
      co_await cli::make_fabric(std::move(kind), meeting, what.wanted.engine);
  progress shown(who.rank == 0 ? stdout : nullptr, fmt::format("{} ranks", who.size),
                 what.wanted.steps);
  co_await train_or_fail(what, *over, shown, result);
  meeting->leave();
}

void run_to_end(asio::io_context& loop, asio::awaitable<void> work, const settings& engine) {
  std::exception_ptr failure;
  asio::co_spawn(loop, std::move(work), [&failure](std::exception_ptr ended) { failure = ended; });
  tandem::run(loop, {.most = engine.spin});
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

outcome train_together(const job& what, const launch_info& who) {
  outcome result;
  asio::io_context loop(1);
  const job mine = as_rank(what, who.rank);
  run_to_end(loop, meet_and_train(mine, who, result), mine.wanted.engine);
  return result;
}

outcome train_alone(const job& what, const std::string& label) {
  outcome result;
  asio::io_context loop(1);
  const std::vector<std::unique_ptr<fabric>> only =
      local::make_fabrics({loop.get_executor()}, what.wanted.engine);
  progress shown(stdout, label, what.wanted.steps);
  run_to_end(loop, train_or_fail(what, *only.front(), shown, result), what.wanted.engine);
  return result;
}

}  // namespace tandem::train
