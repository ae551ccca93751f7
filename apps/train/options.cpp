#include "options.hpp"

#include <limits>
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
    "  tandem train --ranks 1                        one process, no communication\n"
    "  torchrun --nproc-per-node 4 --no-python tandem train\n";

void declare_training(cli::command_line& line, options& wanted) {
  static const std::vector<std::string> names = model_names();
  line.choice("model", wanted.model, {names.begin(), names.end()}, "architecture and size");
  line.option("data", wanted.data, "file or folder of text to train on, read as bytes");
  line.option("steps", wanted.steps, 1, 1'000'000, "optimizer steps");
  line.option("batch", wanted.batch, 1, 65536, "sequences per step, over all replicas");
  line.option("micro-batches", wanted.micro_batches, 1, 65536,
              "micro-batches per step on each replica");
  line.option("sequence", wanted.sequence, 0, 65536, "tokens per sequence; 0: the model's default");
  line.option("learning-rate", wanted.learning_rate, 1e-9, 10.0,
              "peak learning rate, after the warm-up");
  line.option("seed", wanted.seed, 0, std::numeric_limits<int>::max(),
              "random seed of parameters and batches");
  line.choice("schedule", wanted.schedule, {"1f1b", "gpipe"},
              "pipeline schedule of the micro-batches");
}

void declare_layout(cli::command_line& line, options& wanted) {
  line.option("ranks", wanted.ranks, 0, 65536, "processes; 0: as many as --islands lists, else 4");
  line.option("islands", wanted.islands,
              "ranks per island, \"nvidia:2,amd:2\"; default: two equal halves");
  line.option("stages", wanted.stages, 0, 65536, "pipeline stages; 0: one per island");
  line.option("split", wanted.split, "layers of each stage, \"17,15\"; default: even");
}

}  // namespace

bool parse(std::span<const std::string> args, options& wanted) {
  cli::command_line line(
      {.command = "tandem train",
       .arguments = "[options]",
       .summary = "Trains a small language model with pipeline parallelism across islands and "
                  "data parallelism inside them, compares the loss with the same training in one "
                  "process, and writes a report. Starts its own ranks unless run by a launcher.",
       .examples = examples});
  declare_training(line, wanted);
  declare_layout(line, wanted);
  line.choice("channel", wanted.channel, cli::fabric_kinds(),
              "transport; --rails selects rails, mixed uses shm inside an island");
  line.option("report", wanted.report, "HTML report to write");
  line.option("json", wanted.json, "JSON record to write, with the exact loss of every step");
  line.flag("no-reference", wanted.no_reference, "skip the comparison run in one process");
  line.engine_options(wanted.engine);
  if (!line.parse(args)) return false;
  wanted.channel = cli::kind_for(wanted.channel, line.given("channel"), wanted.engine);
  return true;
}

}  // namespace tandem::train
