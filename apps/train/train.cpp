#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <numeric>
#include <optional>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <tandem/version.hpp>
#include <thread>

#include "cli/console.hpp"
#include "cli/job_fabric.hpp"
#include "cli/output_file.hpp"
#include "commands.hpp"
#include "job.hpp"
#include "model/stage.hpp"
#include "options.hpp"
#include "page.hpp"
#include "run/run.hpp"
#include "session.hpp"

namespace tandem::train {
namespace {

int launch(std::span<const std::string> args, int ranks, int min_survivors) {
  std::vector<std::string> command_args{"train"};
  command_args.insert(command_args.end(), args.begin(), args.end());
  launcher::launch_plan plan;
  plan.ranks = ranks;
  plan.command = launcher::self_command(command_args);
  plan.prefix = false;
  // A killed rank fails the others well before this; ranks that still hang afterwards are killed.
  plan.grace = std::chrono::milliseconds(1000);
  plan.kill_after = std::chrono::milliseconds(500);
  plan.name = "tandem train";
  plan.min_survivors = min_survivors;
  return launcher::launch_local(plan);
}

std::string size_text(long count) {
  return count < 1'000'000 ? fmt::format("{} thousand", (count + 500) / 1000)
                           : fmt::format("{:.1f} million", static_cast<double>(count) / 1e6);
}

void print_header(const job& what) {
  cli::print_now(
      fmt::format("Tandem {} trains {} ({} parameters) on {} ({} kB of text)\n"
                  "{}; all ranks compute on CPUs, no GPU is used\n",
                  version(), what.model.name, size_text(parameter_count(what.model)),
                  what.text->source, what.text->bytes.size() / 1000, what.who.text()));
}

void print_summary(const job& what, const outcome& distributed, const history& reference) {
  const history& metrics = distributed.metrics;
  std::string speed = fmt::format("{:.0f} tokens/s on {} rank{}", metrics.tokens_per_s(),
                                  what.who.ranks(), what.who.ranks() == 1 ? "" : "s");
  if (what.who.ranks() > 1) {
    const double waited =
        std::accumulate(metrics.wait_share.begin(), metrics.wait_share.end(), 0.0);
    speed += fmt::format(", {:.0f} % of their time waiting for communication",
                         100 * waited / static_cast<double>(metrics.wait_share.size()));
  }
  if (!reference.loss.empty())
    speed += fmt::format("; {:.0f} in one process", reference.tokens_per_s());
  if (what.who.stages() > 1) {
    speed += fmt::format("\nschedule {}: {}", name(what.schedule_kind()),
                         text_of(bubbles_of(what, distributed)));
  }
  if (what.requested.channel == "mixed" && what.who.ranks() > 1)
    speed += "\ntransports: " + transports_text(distributed.ranks);
  const std::string rails = rails_summary(rails_of(distributed.ranks));
  cli::print(fmt::format("{}\n{}{}{}\n", speed, rails, rails.empty() ? "" : "\n",
                         loss_comparison(metrics, reference)));
}

/// The files that rank 0 writes at the end.
struct results {
  explicit results(const options& requested)
      : report("--report", requested.report), json("--json", requested.json) {}
  /// Unwritable files are reported before the training, not after it.
  void check() const {
    report.check(report_bytes);
    json.check();
  }

  static constexpr std::size_t report_bytes = 64 * 1024;
  cli::output_file report;
  cli::output_file json;
};

/// Writes both files, the second even if the first fails; throws the first error.
void write(const results& to, const std::string& json, const std::string& page) {
  std::exception_ptr failed;
  try {
    to.json.write(json);
  } catch (const error&) {
    failed = std::current_exception();
  }
  try {
    to.report.write(page);
  } catch (const error& second) {
    if (!failed) throw;
    fmt::print(stderr, "tandem train: {}\n", second.what());
  }
  if (failed) std::rethrow_exception(failed);
}

/// Rank 0 only: reference run, report and final output.
void conclude(const job& started, const outcome& distributed) {
  // After a loss: the job that was left at the end.
  const job what = distributed.last_layout
                       ? with_replicas(started, distributed.last_layout->replicas())
                       : started;
  history reference;
  if (!what.requested.no_reference && started.who.ranks() > 1) {
    job one = single_process(started);
    one.changes = distributed.changes;
    reference = train_single_process(one, "1 process").metrics;
  }
  print_summary(what, distributed, reference);
  const results to(what.requested);
  const std::string page =
      to.report.is_enabled() ? render(page_of(what, distributed, reference)) : "";
  write(to, json_of(what, distributed, reference), page);
  if (!to.report.is_enabled()) return;
  cli::print(
      fmt::format("report: {}\n", std::filesystem::absolute(what.requested.report).string()));
}

int train_rank(const job& what, const std::optional<launch_info>& job_launch) {
  if (!job_launch || job_launch->rank == 0) print_header(what);
  const outcome distributed = what.who.ranks() == 1 ? train_single_process(what, "1 rank")
                                                    : train_distributed(what, *job_launch);
  if (distributed.rank == 0) conclude(what, distributed);
  return 0;
}

}  // namespace

int train_main(std::span<const std::string> args) {
  const std::optional<launch_info> job_launch = find_launch();
  options requested;
  // With no spare core, a polling rank takes the core on which another rank computes.
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (job_launch && job_launch->local_size >= cores)
    requested.engine.spin = std::chrono::microseconds(0);
  if (!parse(args, requested)) return 0;
  if (const char* const lacking = unsupported_processor()) throw error(errc::bad_input, lacking);
  std::optional<job> prepared;
  const auto prepare_all = [&] {
    prepared = prepare(requested, job_launch ? job_launch->size : 0);
    if (!job_launch || job_launch->rank == 0) results(requested).check();
    if (prepared->who.ranks() > 1) cli::check_inputs(requested.engine);
  };
  if (job_launch) {
    cli::check_as_rank(*job_launch, requested.engine, prepare_all);
  } else {
    prepare_all();
  }
  const job& what = *prepared;
  if (!job_launch && what.who.ranks() > 1) {
    const auto least = static_cast<int>(what.requested.engine.min_survivors);
    return launch(args, what.who.ranks(), what.requested.survive ? least : 0);
  }
  return train_rank(what, job_launch);
}

}  // namespace tandem::train
