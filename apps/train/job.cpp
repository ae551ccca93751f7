#include "job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/error.hpp>
#include <tandem/version.hpp>
#include <utility>

namespace tandem::train {
namespace {

/// The other ranks of a job wait no longer.
std::shared_ptr<const corpus> load_within(const std::string& from,
                                          std::chrono::milliseconds limit) {
  const auto load = [from] { return std::make_shared<const corpus>(load_corpus(from)); };
  return detail::require_answer(fmt::format("--data {}", from), limit,
                                "are these files, and does their file system respond? For a long "
                                "text raise --meet-timeout-s",
                                load);
}

void check_batch(const job& made) {
  const int pieces = made.who.replicas() * made.requested.micro_batches;
  if (made.requested.batch % pieces == 0) return;
  throw error(
      errc::bad_option,
      fmt::format("a batch of {} sequences does not divide into {} replicas x {} micro-batches",
                  made.requested.batch, made.who.replicas(), made.requested.micro_batches),
      fmt::format("make --batch a multiple of {}", pieces));
}

void check_survival(const job& made) {
  if (!made.requested.survive || made.who.replicas() > 1) return;
  throw error(errc::bad_option, "--survive: there is one replica, and nothing goes on without it",
              "start more ranks, or choose fewer --stages");
}

/// The number of chunks of each stage.
int chunks_of(const options& requested) {
  const pipeline_kind kind = find_pipeline_kind(requested.schedule);
  const int usual = usual_chunks(kind);
  if (requested.chunks == 0 || requested.chunks == usual) return usual;
  if (kind == pipeline_kind::interleaved) return requested.chunks;
  throw error(errc::bad_option,
              fmt::format("--chunks {}: {} has {} of each rank", requested.chunks,
                          requested.schedule, usual),
              "use --schedule interleaved for any number of them");
}

/// Multiplications of a forward for each token: those with weights, and those of attention between
/// activations, of which backward has twice as many in its input part.
struct multiplications {
  std::int64_t of_weights = 0;
  std::int64_t of_activations = 0;
};

multiplications of_layer(const model_config& model, int sequence) {
  const std::int64_t dim = model.dim;
  return {dim * (2 * dim + 2 * model.kv_dim() + 3 * std::int64_t{model.hidden}),
          2 * dim * sequence};
}

}  // namespace

job prepare(const options& requested, int job_ranks) {
  const model_config model = find_model(requested.model);
  if (job_ranks > 0 && requested.ranks > 0 && requested.ranks != job_ranks) {
    throw error(
        errc::bad_option,
        fmt::format("--ranks is {}, but the launcher started {} ranks", requested.ranks, job_ranks),
        "omit --ranks under a launcher");
  }
  const int ranks = job_ranks > 0 ? job_ranks : requested.ranks;
  const layout who({ranks, requested.islands, requested.stages, requested.split,
                    chunks_of(requested), placement_of(find_pipeline_kind(requested.schedule))},
                   model.layers);
  job made{requested, model, {}, who};
  check_batch(made);
  check_survival(made);
  made.text = load_within(requested.data, requested.engine.meet_timeout);
  require_sequence(*made.text, static_cast<std::size_t>(made.sequence()));
  return made;
}

job single_process(const job& distributed) {
  job one = distributed;
  one.who = layout::single(distributed.model.layers);
  one.requested.schedule = name(pipeline_kind::one_f_one_b);
  one.requested.chunks = 0;
  one.serial_replicas = distributed.who.replicas();
  return one;
}

int job::serial_replicas_at(int step) const {
  int count = serial_replicas;
  for (const replica_change& change : changes) {
    if (step >= change.step) count = change.replicas;
  }
  return count;
}

job with_replicas(const job& before, int count) {
  job after = before;
  after.requested.batch = before.requested.batch / before.who.replicas() * count;
  after.who = before.who.with_replicas(count);
  return after;
}

std::vector<stage_cost> costs_of(const job& what) {
  const multiplications layer = of_layer(what.model, what.sequence());
  const std::int64_t head = std::int64_t{what.model.dim} * vocabulary;
  const std::vector<int>& split = what.who.split();
  // A layer is some thousand units, so that the longest stage is far from the limit of a cost.
  const std::int64_t unit =
      std::max<std::int64_t>((layer.of_weights + layer.of_activations) / 1000, 1);
  const auto scaled = [unit](std::int64_t count) {
    return static_cast<int>(std::clamp<std::int64_t>(count / unit, 1, 1'000'000));
  };
  std::vector<stage_cost> costs;
  for (std::size_t i = 0; i < split.size(); ++i) {
    std::int64_t of_weights = split[i] * layer.of_weights;
    if (i + 1 == split.size()) of_weights += head;
    const std::int64_t of_activations = split[i] * layer.of_activations;
    costs.push_back({scaled(of_weights + of_activations), scaled(of_weights + 2 * of_activations),
                     scaled(of_weights)});
  }
  return costs;
}

pipeline_schedule schedule_of(const job& what) {
  return make_schedule({.kind = what.schedule_kind(),
                        .ranks = what.who.stages(),
                        .micro_batches = what.requested.micro_batches,
                        .chunks = what.who.chunks(),
                        .costs = costs_of(what)});
}

job_config job_config_of(const job& agreed) {
  const options& o = agreed.requested;
  return {{"version", version()},
          {"--model", o.model},
          {"text", fmt::format("{} bytes with checksum {:08x}", agreed.text->bytes.size(),
                               agreed.text->checksum)},
          {"layout", agreed.who.text()},
          {"--steps", std::to_string(o.steps)},
          {"--batch", std::to_string(o.batch)},
          {"--micro-batches", std::to_string(o.micro_batches)},
          {"--sequence", std::to_string(agreed.sequence())},
          {"--learning-rate", fmt::format("{:a}", o.learning_rate)},
          {"--seed", std::to_string(o.seed)},
          {"--schedule", std::string(name(agreed.schedule_kind()))},
          {"--channel", o.channel}};
}

std::string to_text(const job_config& agreed) {
  std::string text;
  for (const auto& [name, value] : agreed) text += fmt::format("{}={}\n", name, value);
  return text;
}

job_config parse_job_config(std::string_view text) {
  job_config result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      result.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return result;
}

std::string difference(const job_config& local, int local_rank, const job_config& remote,
                       int remote_rank) {
  const auto value_in = [](const job_config& where, const std::string& name) -> std::string {
    for (const auto& [key, value] : where) {
      if (key == name) return value;
    }
    return "unset";
  };
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& name) {
    const std::string local_value = value_in(local, name), remote_value = value_in(remote, name);
    const std::string text = fmt::format("{}: rank {} has {}, rank {} has {}", name, local_rank,
                                         local_value, remote_rank, remote_value);
    if (local_value != remote_value &&
        std::find(differences.begin(), differences.end(), text) == differences.end()) {
      differences.push_back(text);
    }
  };
  for (const auto& entry : local) compare(entry.first);
  for (const auto& entry : remote) compare(entry.first);
  return fmt::format("{}", fmt::join(differences, "; "));
}

}  // namespace tandem::train
