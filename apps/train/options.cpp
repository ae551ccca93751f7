#include "options.hpp"

#include <limits>
#include <tandem/pipeline_schedule.hpp>
#include <vector>

#include "cli/command_line.hpp"
#include "cli/job_fabric.hpp"
#include "model/config.hpp"

namespace tandem::train {
namespace {

constexpr const char* examples =
    "  tandem train                                  two islands of two ranks, with a report\n"
    "  tandem train --model qwen2-small              the Qwen2 architecture\n"
    "  tandem train --data book.txt --steps 500      another text, more steps\n"
    "  tandem train --stages 4                       a pipeline of four stages, no replicas\n"
    "  tandem train --ranks 2 --split 1,3            one rank per island, explicit layer split\n"
    "  tandem train --schedule zb_v --stages 2       another pipeline schedule, same loss\n"
    "  tandem train --survive                        kill a rank: its replica ends, the other goes "
    "on\n"
    "  tandem train --ranks 1                        one process, no communication\n"
    "  torchrun --nproc-per-node 4 --no-python tandem train\n";

void declare_training(cli::command_line& line, options& requested) {
  static const std::vector<std::string> names = model_names();
  line.choice("model", requested.model, {names.begin(), names.end()}, "architecture and size");
  line.input("data", requested.data, "file or folder of text to train on, read as bytes");
  line.option("steps", requested.steps, 1, 1'000'000, "optimizer steps");
  line.option("batch", requested.batch, 1, 65536, "sequences per step, over all replicas");
  line.option("micro-batches", requested.micro_batches, 1, 65536,
              "micro-batches per step on each replica");
  line.option("sequence", requested.sequence, 0, 65536,
              "tokens per sequence; 0: the model's default");
  line.option("learning-rate", requested.learning_rate, 1e-9, 10.0,
              "peak learning rate, after the warm-up");
  line.option("seed", requested.seed, 0, std::numeric_limits<int>::max(),
              "random seed of parameters and batches");
  std::vector<std::string_view> schedules{"1f1b"};
  for (const pipeline_kind kind : pipeline_kinds()) schedules.push_back(name(kind));
  line.choice("schedule", requested.schedule, schedules,
              "pipeline schedule of the micro-batches; zb_v and v_uneven place two chunks of the "
              "model in a V");
  line.option("chunks", requested.chunks, 0, 64,
              "parts of the model on each rank, for interleaved; 0: 2 for it, else what the "
              "schedule has");
}

void declare_layout(cli::command_line& line, options& requested) {
  line.option("ranks", requested.ranks, 0, 65536,
              "processes; 0: as many as --islands lists, else 4");
  line.option("islands", requested.islands,
              "ranks per island, \"nvidia:2,amd:2\"; default: two equal halves");
  line.option("stages", requested.stages, 0, 65536, "pipeline stages; 0: one per island");
  line.option("split", requested.split, "layers of each stage, \"17,15\", or chunk; default: even");
}

}  // namespace

bool parse(std::span<const std::string> args, options& requested) {
  cli::command_line line(
      {.command = "tandem train",
       .arguments = "[options]",
       .summary = "Trains a small language model with pipeline parallelism across islands and "
                  "data parallelism inside them, compares the loss with the same training in one "
                  "process, and writes a report. Starts its own ranks unless run by a launcher.",
       .examples = examples});
  declare_training(line, requested);
  declare_layout(line, requested);
  line.choice("channel", requested.channel, cli::fabric_kinds(),
              "transport; --rails selects rails, mixed uses shm inside an island");
  line.flag("survive", requested.survive,
            "go on without replicas that lost a rank, while --min-survivors ranks are left");
  line.output("report", requested.report, "HTML report to write");
  line.output("json", requested.json, "JSON record to write, with the exact loss of every step");
  line.flag("no-reference", requested.no_reference, "skip the comparison run in one process");
  line.engine_options(requested.engine);
  if (!line.parse(args)) return false;
  if (requested.survive && requested.engine.min_survivors == 0) requested.engine.min_survivors = 1;
  requested.channel =
      cli::fabric_kind_for(requested.channel, line.given("channel"), requested.engine);
  return true;
}

}  // namespace tandem::train
