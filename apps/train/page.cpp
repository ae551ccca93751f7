#include "page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>
#include <set>
#include <tandem/version.hpp>

#include "carriers.hpp"
#include "json.hpp"

namespace tandem::train {
namespace {

std::set<std::string> hosts_of(const std::vector<rank_record>& ranks) {
  std::set<std::string> hosts;
  for (const rank_record& one : ranks) hosts.insert(one.host);
  return hosts;
}

std::string whereabouts(const outcome& together) {
  std::string text;
  for (const rank_record& one : together.ranks) {
    text += fmt::format("{}{}: {} on {}, {}", text.empty() ? "" : "; ", one.name, one.island,
                        one.host, one.place);
  }
  return text;
}

std::string link_text(const job& what, const outcome& together) {
  if (what.who.ranks() == 1) return "none: one rank";
  if (what.wanted.channel == "mixed") {
    const std::string text = carried_text(together.ranks);
    const std::string& rails = what.wanted.engine.rails;
    return rails.empty() ? text : fmt::format("{} ({})", text, rails);
  }
  if (what.wanted.channel == "shm") return "shared memory";
  if (!what.wanted.engine.rails.empty())
    return fmt::format("TCP over rails: {}", what.wanted.engine.rails);
  return hosts_of(together.ranks).size() == 1 ? "TCP over this machine's loopback" : "TCP";
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
                     what.wanted.batch, what.sequence(), what.wanted.micro_batches,
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

std::string carried_text(const std::vector<rank_record>& ranks) {
  const carriers by = carriers_of(ranks);
  std::string text;
  if (!by.inside.empty()) text = by.inside + " inside islands";
  if (!by.between.empty())
    text += fmt::format("{}{} between islands", text.empty() ? "" : ", ", by.between);
  return text;
}

std::vector<rail_record> rails_of(const std::vector<rank_record>& ranks) {
  std::vector<rail_history> ends;
  std::vector<std::string> islands;
  for (const rank_record& one : ranks) {
    ends.insert(ends.end(), one.rails.begin(), one.rails.end());
    islands.push_back(one.island);
  }
  return join_rails(ends, islands);
}

report page_of(const job& what, const outcome& together, const history& reference) {
  report page;
  page.title = fmt::format("Tandem trains {} on {} rank{}", what.model.name, what.who.ranks(),
                           what.who.ranks() == 1 ? "" : "s");
  page.note = hardware_note(together.ranks);
  page.joint = together.course;
  page.reference = reference;
  page.ranks = together.ranks;
  page.kept_steps = together.kept_steps;
  page.rails = rails_of(together.ranks);
  const options& o = what.wanted;
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
      {"schedule", o.schedule},
      {"rank locations", whereabouts(together)},
      {"transport", link_text(what, together)},
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

std::string json_of(const job& what, const outcome& together, const history& reference) {
  json_object all;
  for (const auto& [name, value] : plan_of(what)) {
    all.text(name.starts_with("--") ? name.substr(2) : name, value);
  }
  all.number("parameters", static_cast<double>(parameter_count(what.model)));
  all.number("tokens_per_step", together.course.tokens_per_step);
  all.number("tokens_per_s", together.course.tokens_per_s());
  all.number("wait_share", mean(together.course.wait_share));
  all.number("final_loss", together.course.loss.back());
  all.numbers("loss", together.course.loss);
  all.bits("loss_bits", together.course.loss);
  all.numbers("step_s", together.course.step_s);
  const carriers by = carriers_of(together.ranks);
  if (!by.inside.empty()) all.text("carried_inside_islands", by.inside);
  if (!by.between.empty()) all.text("carried_between_islands", by.between);
  const std::vector<rail_record> rails = rails_of(together.ranks);
  if (!rails.empty()) all.json("rails", rails_json(rails));
  if (!reference.loss.empty()) {
    all.number("reference_tokens_per_s", reference.tokens_per_s());
    all.number("reference_final_loss", reference.loss.back());
    all.number("largest_relative_difference", largest_difference(together.course, reference));
    all.numbers("reference_loss", reference.loss);
    all.bits("reference_loss_bits", reference.loss);
  }
  all.text("commit", commit());
  return all.take();
}

}  // namespace tandem::train
