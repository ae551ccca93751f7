#include "page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>
#include <set>
#include <tandem/version.hpp>

#include "json.hpp"

namespace tandem::train {
namespace {

std::set<std::string> hosts_of(const std::vector<rank_record>& ranks) {
  std::set<std::string> hosts;
  for (const rank_record& record : ranks) hosts.insert(record.host);
  return hosts;
}

std::string rank_locations(const outcome& distributed) {
  std::string text;
  for (const rank_record& record : distributed.ranks) {
    text += fmt::format("{}{}: {} on {}, {}", text.empty() ? "" : "; ", record.name, record.island,
                        record.host, record.rank_location);
  }
  return text;
}

std::string link_text(const job& what, const outcome& distributed) {
  if (what.who.ranks() == 1) return "none: one rank";
  if (what.requested.channel == "mixed") {
    const std::string text = transports_text(distributed.ranks);
    const std::string& rails = what.requested.engine.rails;
    return rails.empty() ? text : fmt::format("{} ({})", text, rails);
  }
  if (what.requested.channel == "shm") return "shared memory";
  if (!what.requested.engine.rails.empty())
    return fmt::format("TCP over rails: {}", what.requested.engine.rails);
  return hosts_of(distributed.ranks).size() == 1 ? "TCP over this machine's loopback" : "TCP";
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

double largest_difference(const history& a, const history& b) {
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.loss.size(), b.loss.size()); ++i) {
    largest = std::max(largest, std::abs((a.loss[i] - b.loss[i]) / b.loss[i]));
  }
  return largest;
}

std::string batch_text(const job& what) {
  return fmt::format("{} sequences of {} tokens a step, in {} micro-batches of {} on each replica",
                     what.requested.batch, what.sequence(), what.requested.micro_batches,
                     what.sequences());
}

}  // namespace

std::string hardware_note(const std::vector<rank_record>& ranks) {
  const std::set<std::string> hosts = hosts_of(ranks);
  const std::string where = hosts.size() == 1 ? fmt::format("this machine ({})", *hosts.begin())
                                              : fmt::format("{} machines", hosts.size());
  return fmt::format(
      "All ranks compute on the CPUs of {}. Island names stand for the vendor whose GPUs would be "
      "there; no GPU was used.",
      where);
}

std::string transports_text(const std::vector<rank_record>& ranks) {
  const transports by = transports_of(ranks);
  std::string text;
  if (!by.inside.empty()) text = by.inside + " inside islands";
  if (!by.between.empty())
    text += fmt::format("{}{} between islands", text.empty() ? "" : ", ", by.between);
  return text;
}

std::vector<rail_record> rails_of(const std::vector<rank_record>& ranks) {
  std::vector<rail_history> ends;
  std::vector<std::string> islands;
  for (const rank_record& record : ranks) {
    ends.insert(ends.end(), record.rails.begin(), record.rails.end());
    islands.push_back(record.island);
  }
  return join_rails(ends, islands);
}

bubbles bubbles_of(const job& what, const outcome& distributed) {
  std::vector<std::vector<pipeline_run>> runs;
  for (int replica = 0; replica < what.who.replicas(); ++replica) {
    for (const int rank : what.who.pipeline(replica)) {
      runs.push_back(distributed.ranks[static_cast<std::size_t>(rank)].pipeline_runs);
    }
  }
  return {check(schedule_of(what), costs_of(what)).bubble(),
          measured_bubble(runs, what.who.stages())};
}

std::string text_of(const bubbles& both) {
  return fmt::format("bubble {:.1f} % predicted, {:.1f} % measured", 100 * both.predicted,
                     100 * both.measured);
}

report page_of(const job& what, const outcome& distributed, const history& reference) {
  report page;
  page.title = fmt::format("Tandem trains {} on {} rank{}", what.model.name, what.who.ranks(),
                           what.who.ranks() == 1 ? "" : "s");
  page.note = hardware_note(distributed.ranks);
  page.joint = distributed.metrics;
  page.reference = reference;
  page.ranks = distributed.ranks;
  page.kept_steps = distributed.kept_steps;
  page.rails = rails_of(distributed.ranks);
  const options& o = what.requested;
  page.summary = {
      {"model",
       fmt::format("{}: {} layers of width {}, {} heads, {} of keys and values", what.model.name,
                   what.model.layers, what.model.dim, what.model.heads, what.model.kv_heads)},
      {"parameters", fmt::format("{}", parameter_count(what.model))},
      {"text", fmt::format("{} ({} bytes in {} files)", what.text->source, what.text->bytes.size(),
                           what.text->files.size())},
      {"batch", batch_text(what)},
      {"steps",
       fmt::format("{}, learning rate up to {:g}, seed {}", o.steps, o.learning_rate, o.seed)},
      {"layout", what.who.text()},
      {"schedule",
       fmt::format("{}: {}", name(what.schedule_kind()), text_of(bubbles_of(what, distributed)))},
      {"rank locations", rank_locations(distributed)},
      {"transport", link_text(what, distributed)},
      {"tokens per second", fmt::format("{:.0f} on all ranks", page.joint.tokens_per_s())},
      {"waiting for communication",
       fmt::format("{:.1f} % of the ranks' time", 100 * mean(page.joint.wait_share))},
      {"final loss", fmt::format("{:.9g}", page.joint.loss.back())},
  };
  if (!reference.loss.empty()) {
    page.summary.back().second += fmt::format("; in one process {:.9g}", reference.loss.back());
    page.summary.emplace_back(
        "largest relative difference",
        fmt::format("{:.2g}, over all steps", largest_difference(page.joint, reference)));
    page.summary.emplace_back("one process", fmt::format("{:.0f} tokens per second, on one core",
                                                         reference.tokens_per_s()));
  }
  page.summary.emplace_back("Tandem", fmt::format("{}, commit {}", version(), commit()));
  return page;
}

std::string json_of(const job& what, const outcome& distributed, const history& reference) {
  json_object all;
  for (const auto& [name, value] : job_config_of(what)) {
    all.text(name.starts_with("--") ? name.substr(2) : name, value);
  }
  all.number("parameters", static_cast<double>(parameter_count(what.model)));
  all.number("tokens_per_step", distributed.metrics.tokens.back());
  all.number("tokens_per_s", distributed.metrics.tokens_per_s());
  all.number("wait_share", mean(distributed.metrics.wait_share));
  const bubbles of_pipeline = bubbles_of(what, distributed);
  all.number("bubble_predicted", of_pipeline.predicted);
  all.number("bubble_measured", of_pipeline.measured);
  all.number("final_loss", distributed.metrics.loss.back());
  all.numbers("loss", distributed.metrics.loss);
  all.bits("loss_bits", distributed.metrics.loss);
  all.numbers("step_s", distributed.metrics.step_s);
  const transports by = transports_of(distributed.ranks);
  if (!by.inside.empty()) all.text("carried_inside_islands", by.inside);
  if (!by.between.empty()) all.text("carried_between_islands", by.between);
  const std::vector<rail_record> rails = rails_of(distributed.ranks);
  if (!rails.empty()) all.json("rails", rails_json(rails));
  if (!reference.loss.empty()) {
    all.number("reference_tokens_per_s", reference.tokens_per_s());
    all.number("reference_final_loss", reference.loss.back());
    all.number("largest_relative_difference", largest_difference(distributed.metrics, reference));
    all.numbers("reference_loss", reference.loss);
    all.bits("reference_loss_bits", reference.loss);
  }
  all.text("commit", commit());
  return all.take();
}

}  // namespace tandem::train
