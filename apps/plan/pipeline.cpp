// `tandem plan pipeline`: a schedule as a grid or as JSON, with its peaks of memory and its bubble.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tandem/error.hpp>
#include <tandem/pipeline_schedule.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"
#include "cli/text.hpp"
#include "plan/pipeline_times.hpp"
#include "plan/plan.hpp"

namespace tandem::planner {
namespace {

struct pipeline_options {
  std::string schedule = "1f1b";
  std::string costs;
  bool json = false;
  pipeline_shape shape{.ranks = 4, .micro_batches = 8};
  pipeline_times times;
};

/// Three costs: "2/2/1".
stage_cost parse_cost(const std::string& text, const std::string& all) {
  std::vector<int> numbers;
  std::string_view rest = text;
  while (true) {
    const std::size_t slash = rest.find('/');
    numbers.push_back(cli::parse_integer(rest.substr(0, slash), 1, 1'000'000).value_or(0));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (numbers.size() != 3 || std::find(numbers.begin(), numbers.end(), 0) != numbers.end()) {
    throw error(errc::bad_option, fmt::format("--costs={}: '{}' is not three durations", all, text),
                "for example 2/2/1: of forward, input part and weight part");
  }
  return {numbers[0], numbers[1], numbers[2]};
}

/// A cost for each stage, or one for all; without any, all are equal.
std::vector<stage_cost> costs_of(const pipeline_options& o, std::size_t stages) {
  if (o.costs.empty()) return std::vector<stage_cost>(stages);
  std::vector<stage_cost> costs;
  for (const std::string& one : cli::split_commas(o.costs)) {
    costs.push_back(parse_cost(one, o.costs));
  }
  if (costs.size() == 1) costs.resize(stages, costs[0]);
  if (costs.size() == stages) return costs;
  throw error(errc::bad_option,
              fmt::format("--costs={}: {} stages, but there are {}", o.costs, costs.size(), stages),
              "give each stage its costs, in the order of the model, or one for all");
}

std::vector<int> stages_of(const pipeline_schedule& all, int rank) {
  std::vector<int> stages;
  for (int chunk = 0; chunk < all.chunks; ++chunk) {
    stages.push_back(stage_of(all.placement, {rank, chunk}, all.size()));
  }
  return stages;
}

std::string title_of(const pipeline_options& o, const pipeline_schedule& all) {
  return fmt::format("{}: {} rank{}, {} chunk{} each{}, {} micro-batches\n", name(o.shape.kind),
                     all.size(), all.size() == 1 ? "" : "s", all.chunks, all.chunks == 1 ? "" : "s",
                     all.placement == pipeline_placement::v ? " in V placement" : "",
                     all.micro_batches);
}

std::string text_of(const pipeline_options& o, const pipeline_schedule& all,
                    const std::vector<stage_cost>& costs, const schedule_check& found) {
  std::string text = title_of(o, all) + print(all, costs) + '\n';
  text += "rank  stages    peak stash  pending weights  bubble\n";
  for (int rank = 0; rank < all.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    text += fmt::format("{:<5} {:<9} {:<11} {:<16} {:.1f} %\n", rank,
                        fmt::format("{}", fmt::join(stages_of(all, rank), ",")),
                        found.peak_stash[r], found.peak_weights[r], 100 * found.bubble(rank));
  }
  return text +
         fmt::format("all ranks: {} slots, bubble {:.1f} %\n", found.slots, 100 * found.bubble());
}

/// @param times  more members; empty: none
std::string json_of(const pipeline_options& o, const pipeline_schedule& all,
                    const schedule_check& found, const std::string& times) {
  std::string ranks;
  for (int rank = 0; rank < all.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    std::string steps;
    for (std::size_t i = 0; i < all.ranks[r].size(); ++i) {
      const pipeline_step& step = all.ranks[r][i];
      steps +=
          fmt::format("{}{{\"what\": \"{}\", \"chunk\": {}, \"micro_batch\": {}, \"slot\": {}}}",
                      i == 0 ? "" : ", ", name(step.what), step.chunk, step.micro_batch,
                      found.begin_slots[r][i]);
    }
    ranks += fmt::format(
        "{}\n    {{\"stages\": [{}], \"peak_stash\": {}, \"peak_weights\": {}, \"busy_slots\": {}, "
        "\"message_slots\": {}, \"bubble\": {}, \"steps\": [{}]}}",
        rank == 0 ? "" : ",", fmt::join(stages_of(all, rank), ", "), found.peak_stash[r],
        found.peak_weights[r], found.busy_slots[r], found.message_slots[r], found.bubble(rank),
        steps);
  }
  return fmt::format(
      "{{\n  \"schedule\": \"{}\", \"chunks\": {}, \"micro_batches\": {}, \"slots\": {}, "
      "\"bubble\": {},\n{}  \"ranks\": [{}\n  ]\n}}\n",
      name(o.shape.kind), all.chunks, all.micro_batches, found.slots, found.bubble(),
      times.empty() ? "" : fmt::format("  \"slot_ns\": 1, {},\n", times), ranks);
}

bool parse(std::span<const std::string> args, pipeline_options& o) {
  std::vector<std::string_view> schedules{"1f1b"};
  for (const pipeline_kind kind : pipeline_kinds()) schedules.push_back(name(kind));
  cli::command_line line(
      {.command = "tandem plan pipeline",
       .arguments = "[options]",
       .summary = "Prints a pipeline schedule: a line for each rank and a column for each slot of "
                  "time (F forward, B backward, I and W its input and weight part; a, b the "
                  "chunk), the stash of each rank, and the bubble. With times, how long a step "
                  "takes, and whether computation, bubble or link decides that.",
       .examples =
           "  tandem plan pipeline --schedule zb_h1 --ranks 4 --micro-batches 8\n"
           "  tandem plan pipeline --schedule interleaved --chunks 3\n"
           "  tandem plan pipeline --schedule v_uneven --ranks 2 --costs "
           "2/2/1,4/4/3,4/4/3,2/2/1\n"
           "  tandem plan pipeline --ranks 2 --forward-ms 20 --message-bytes 32M --link-gbit "
           "10\n"});
  line.choice("schedule", o.schedule, schedules, "the schedule");
  line.option("ranks", o.shape.ranks, 1, 1024, "ranks of the pipeline");
  line.option("micro-batches", o.shape.micro_batches, 0, 65536, "micro-batches of a step");
  line.option("chunks", o.shape.chunks, 0, 64,
              "chunks of each rank, for interleaved; 0: as many as the schedule usually has");
  line.option("costs", o.costs,
              "durations of forward, input part and weight part of each stage, or of all: "
              "2/2/1,4/4/3; default: all equal");
  line.option("max-stash", o.shape.max_stash, 0, 65536,
              "for v_uneven: limit of a rank's stash, in micro-batches of one chunk; 0: 2 a rank");
  o.times.declare(line);
  line.flag("json", o.json, "print JSON, with all steps");
  if (!line.parse(args)) return false;
  o.times.check(line);
  return true;
}

}  // namespace

int pipeline_main(std::span<const std::string> args) {
  pipeline_options o;
  if (!parse(args, o)) return cli::success;
  o.shape.kind = find_pipeline_kind(o.schedule);
  const int chunks = o.shape.chunks == 0 ? usual_chunks(o.shape.kind) : o.shape.chunks;
  const std::vector<stage_cost> costs =
      costs_of(o, static_cast<std::size_t>(o.shape.ranks) * static_cast<std::size_t>(chunks));
  o.shape.costs = o.times.forward_ms > 0 ? o.times.costs_us(costs) : costs;
  const pipeline_schedule all = make_schedule(o.shape);
  if (o.times.given()) {
    const step_times step = predict_step(o.times, all, costs);
    cli::print(o.json ? json_of(o, all, step.found.simulated, times_json(step))
                      : title_of(o, all) + times_text(o.times, step));
    return cli::success;
  }
  const schedule_check found = check(all, costs);
  cli::print(o.json ? json_of(o, all, found, "") : text_of(o, all, costs, found));
  return cli::success;
}

}  // namespace tandem::planner
