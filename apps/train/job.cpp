#include "job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tandem/error.hpp>
#include <tandem/version.hpp>

namespace tandem::train {
namespace {

void check_batch(const job& made) {
  const int pieces = made.who.replicas() * made.wanted.micro_batches;
  if (made.wanted.batch % pieces == 0) return;
  throw error(
      errc::bad_option,
      fmt::format("a batch of {} sequences does not divide into {} replicas x {} micro-batches",
                  made.wanted.batch, made.who.replicas(), made.wanted.micro_batches),
      fmt::format("make --batch a multiple of {}", pieces));
}

}  // namespace

job prepare(const options& wanted, int job_ranks) {
  const model_config model = find_model(wanted.model);
  if (job_ranks > 0 && wanted.ranks > 0 && wanted.ranks != job_ranks) {
    throw error(
        errc::bad_option,
        fmt::format("--ranks is {}, but the launcher started {} ranks", wanted.ranks, job_ranks),
        "omit --ranks under a launcher");
  }
  const int ranks = job_ranks > 0 ? job_ranks : wanted.ranks;
  const layout who({ranks, wanted.islands, wanted.stages, wanted.split}, model.layers);
  job made{wanted, model, {}, who};
  check_batch(made);
  made.text = std::make_shared<corpus>(load_corpus(wanted.data));
  require_sequence(*made.text, static_cast<std::size_t>(made.sequence()));
  return made;
}

job alone(const job& together) {
  job one = together;
  one.who = layout::single(together.model.layers);
  one.turns = together.who.replicas();
  return one;
}

plan plan_of(const job& agreed) {
  const options& o = agreed.wanted;
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
          {"--schedule", o.schedule},
          {"--channel", o.channel}};
}

std::string to_text(const plan& agreed) {
  std::string text;
  for (const auto& [name, value] : agreed) text += fmt::format("{}={}\n", name, value);
  return text;
}

plan plan_from(std::string_view text) {
  plan result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      result.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return result;
}

std::string difference(const plan& mine, int my_rank, const plan& theirs, int their_rank) {
  const auto value_in = [](const plan& where, const std::string& name) -> std::string {
    for (const auto& [key, value] : where) {
      if (key == name) return value;
    }
    return "unset";
  };
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& name) {
    const std::string here = value_in(mine, name), there = value_in(theirs, name);
    const std::string text =
        fmt::format("{}: rank {} has {}, rank {} has {}", name, my_rank, here, their_rank, there);
    if (here != there &&
        std::find(differences.begin(), differences.end(), text) == differences.end()) {
      differences.push_back(text);
    }
  };
  for (const auto& entry : mine) compare(entry.first);
  for (const auto& entry : theirs) compare(entry.first);
  return fmt::format("{}", fmt::join(differences, "; "));
}

}  // namespace tandem::train
