#include "session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <numeric>
#include <optional>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/collectives.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/launch.hpp>
#include <tandem/store.hpp>

#include "cli/console.hpp"
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

asio::awaitable<void> train_over(const job& what, fabric& over, training_state& state,
                                 const std::string& label, outcome& result) {
  groups with = co_await make_groups(what, over);
  trainer work(what, over, std::move(with), state);
  co_await work.agree_on_first_step();
  if (result.last_layout) result.changes.push_back({state.steps_done(), what.who.replicas()});
  progress shown(over.rank() == 0 ? stdout : nullptr, label, what.requested.steps,
                 state.steps_done());
  const bool waits = over.size() > 1;
  const progress::rails_source rails = [&work] { return rail_texts(work.rail_status()); };
  const auto after_step = [&shown, waits, &rails](const history& so_far) {
    shown.step(so_far.loss.back(), so_far.tokens.back(), waits ? so_far.wait_share.back() : -1,
               rails);
  };
  trainer::step_handler handler = after_step;
  co_await work.run(std::move(handler));
  result.ranks = co_await work.collect();
  result.rank = over.rank();
  result.metrics = state.metrics;
  result.kept_steps = work.kept_steps();
}

/// A failure of this rank is propagated to all ranks, then rethrown.
asio::awaitable<void> train_or_fail(const job& what, fabric& over, training_state& state,
                                    const std::string& label, outcome& result) {
  std::exception_ptr failure;
  try {
    co_await train_over(what, over, state, label, result);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    over.fail(as_error(failure, over.rank()));
    std::rethrow_exception(failure);
  }
  over.close();
}

/// Trains until all steps are done. Returns the loss that ended it instead, where the job may go
/// on.
asio::awaitable<std::optional<error>> train_until_loss(const job& what,
                                                       std::shared_ptr<store> rendezvous,
                                                       training_state& state, outcome& result) {
  std::string kind = what.requested.channel;
  std::optional<error> loss;
  try {
    const std::unique_ptr<fabric> over =
        co_await cli::make_fabric(std::move(kind), rendezvous, what.requested.engine);
    const int size = over->size();
    const std::string label = fmt::format("{} rank{}", size, size == 1 ? "" : "s");
    co_await train_or_fail(what, *over, state, label, result);
  } catch (const error& failed) {
    const bool is_loss = failed.code() == errc::peer_lost || failed.code() == errc::unreachable;
    if (!is_loss || !what.requested.survive) throw;
    loss = failed;
  }
  co_return loss;
}

/// Completes when a rank of the store is lost.
asio::awaitable<void> next_loss(store& among) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer lost(executor, asio::steady_timer::time_point::max());
  among.on_lost([&lost](const error&) { lost.cancel(); });
  co_await lost.async_wait(detail::quiet);
}

[[noreturn]] void end_with_replica(const layout& before, int rank) {
  error_context context;
  context.rank = rank;
  context.detail = fmt::format(
      "another rank of replica {} was lost: this rank ends, too, and the "
      "other replicas go on",
      before.at(rank).replica);
  context.advice = "restart the job to train with it again";
  throw error(make_error_code(errc::peer_lost), std::move(context));
}

/// The ranks of complete replicas meet again; the others leave them. Completes with their store,
/// and with the job that they are.
asio::awaitable<void> go_on(std::shared_ptr<store>& rendezvous, job& what) {
  const layout before = what.who;
  // Ranks of that layout, by rank of the store.
  std::vector<int> numbers(static_cast<std::size_t>(before.ranks()));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (;;) {
    std::shared_ptr<store> next = co_await rendezvous->shrink();
    std::vector<int> left;
    for (const int rank : next->previous_ranks()) {
      left.push_back(numbers[static_cast<std::size_t>(rank)]);
    }
    numbers = left;
    const int own = numbers[static_cast<std::size_t>(next->who().rank)];
    const std::vector<int> complete = complete_replicas(before, left);
    if (std::find(complete.begin(), complete.end(), before.at(own).replica) == complete.end()) {
      end_with_replica(before, own);
    }
    rendezvous = std::move(next);
    if (ranks_of(before, complete) == left) {
      what = with_replicas(what, static_cast<int>(complete.size()));
      co_return;
    }
    co_await next_loss(*rendezvous);
  }
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

asio::awaitable<void> rendezvous_and_train(job what, launch_info who, outcome& result) {
  std::shared_ptr<store> rendezvous = co_await store::meet(who, what.requested.engine);
  co_await compare_configs(*rendezvous, what);
  training_state state(what, who.rank);
  for (;;) {
    const std::optional<error> loss = co_await train_until_loss(what, rendezvous, state, result);
    if (!loss) break;
    const int before = what.who.replicas();
    co_await go_on(rendezvous, what);
    result.last_layout = what.who;
    if (rendezvous->who().rank == 0) {
      cli::print_now(
          fmt::format("{}; {} of {} replicas go on\n", loss->what(), what.who.replicas(), before));
    }
  }
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
  training_state state(what, 0);
  run_to_end(loop, train_or_fail(what, *only.front(), state, label, result), what.requested.engine);
  return result;
}

}  // namespace tandem::train
