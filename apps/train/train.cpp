#include "train.hpp"

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

#include "cli/early_checks.hpp"
#include "cli/output_file.hpp"
#include "job.hpp"
#include "model/processor.hpp"
#include "options.hpp"
#include "page.hpp"
#include "run/run.hpp"
#include "session.hpp"

namespace tandem::train {
namespace {

int launch(std::span<const std::string> args, int ranks) {
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
  return launcher::launch_local(plan);
}

std::string size_text(long count) {
  return count < 1'000'000 ? fmt::format("{} thousand", (count + 500) / 1000)
                           : fmt::format("{:.1f} million", static_cast<double>(count) / 1e6);
}

void say_what(const job& what) {
  fmt::print("Tandem {} trains {} ({} parameters) on {} ({} kB of text)\n", version(),
             what.model.name, size_text(parameter_count(what.model)), what.text->source,
             what.text->bytes.size() / 1000);
  fmt::print("{}; all ranks compute on CPUs, no GPU is used\n", what.who.text());
  std::fflush(stdout);
}

void say_how_it_went(const job& what, const outcome& together, const history& reference) {
  const history& course = together.course;
  std::string speed = fmt::format("{:.0f} tokens/s on {} rank{}", course.tokens_per_s(),
                                  what.who.ranks(), what.who.ranks() == 1 ? "" : "s");
  if (what.who.ranks() > 1) {
    const double waited = std::accumulate(course.wait_share.begin(), course.wait_share.end(), 0.0);
    speed += fmt::format(", {:.0f} % of their time waiting for communication",
                         100 * waited / static_cast<double>(course.wait_share.size()));
  }
  if (!reference.loss.empty())
    speed += fmt::format("; {:.0f} in one process", reference.tokens_per_s());
  if (what.wanted.channel == "mixed" && what.who.ranks() > 1)
    speed += "\ntransports: " + carried_text(together.ranks);
  const std::string rails = rails_verdict(rails_of(together.ranks));
  fmt::print("{}\n{}{}{}\n", speed, rails, rails.empty() ? "" : "\n", verdict(course, reference));
}

/// The files that rank 0 writes at the end.
struct results {
  explicit results(const options& wanted)
      : report("--report", wanted.report), json("--json", wanted.json) {}
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
void conclude(const job& what, const outcome& together) {
  history reference;
  if (!what.wanted.no_reference && what.who.ranks() > 1) {
    reference = train_alone(alone(what), "1 process").course;
  }
  say_how_it_went(what, together, reference);
  const results to(what.wanted);
  const std::string page = to.report.is_wanted() ? render(page_of(what, together, reference)) : "";
  write(to, json_of(what, together, reference), page);
  if (!to.report.is_wanted()) return;
  fmt::print("report: {}\n", std::filesystem::absolute(what.wanted.report).string());
}

int train_rank(const job& what, const std::optional<launch_info>& place_in_job) {
  const bool first = !place_in_job || place_in_job->rank == 0;
  if (first) say_what(what);
  const outcome together =
      what.who.ranks() == 1 ? train_alone(what, "1 rank") : train_together(what, *place_in_job);
  if (first) conclude(what, together);
  return 0;
}

}  // namespace

int train_main(std::span<const std::string> args) {
  const std::optional<launch_info> place_in_job = find_launch();
  options wanted;
  // With no spare core, a polling rank takes the core on which another rank computes.
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (place_in_job && place_in_job->local_size >= cores)
    wanted.engine.spin = std::chrono::microseconds(0);
  if (!parse(args, wanted)) return 0;
  if (const char* const lacking = unsupported_processor()) throw error(errc::bad_input, lacking);
  std::optional<job> prepared;
  const auto prepare_all = [&] {
    prepared = prepare(wanted, place_in_job ? place_in_job->size : 0);
    if (!place_in_job || place_in_job->rank == 0) results(wanted).check();
    if (prepared->who.ranks() > 1) cli::check_inputs(wanted.engine);
  };
  if (place_in_job) {
    cli::check_as_rank(*place_in_job, wanted.engine, prepare_all);
  } else {
    prepare_all();
  }
  const job& what = *prepared;
  if (!place_in_job && what.who.ranks() > 1) return launch(args, what.who.ranks());
  return train_rank(what, place_in_job);
}

}  // namespace tandem::train
