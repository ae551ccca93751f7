// `tandem plan pipeline` with times: how long a step takes, and what decides that.
#include "plan/pipeline_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>

namespace tandem::planner {
namespace {

constexpr double min_ms = 0.001, max_ms = 1000;
constexpr double min_gbit = 0.001, max_gbit = 100'000;
constexpr double max_message_bytes = 1e12;
constexpr double max_cost_ns = 1e9;

int rounded_ns(double ns) {
  return std::max(static_cast<int>(std::lround(ns)), 1);
}

double ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

error bad_times(std::string what, std::string advice) {
  return error(errc::bad_option, std::move(what), std::move(advice));
}

pipeline_limit limit_with(const pipeline_times& times, double gbit, const pipeline_schedule& all,
                          const std::vector<stage_cost>& costs) {
  return predict(all, costs, times.message_ns(gbit)).decides();
}

/// The lowest bandwidth at which the link does not decide, to 1 %, rounded up.
std::optional<double> find_enough_gbit(const pipeline_times& times, const pipeline_schedule& all,
                                       const std::vector<stage_cost>& costs) {
  if (limit_with(times, max_gbit, all, costs) == pipeline_limit::link) return std::nullopt;
  double low = times.link_gbit, high = times.link_gbit;
  do {
    low = high;
    high = std::min(2 * high, max_gbit);
  } while (limit_with(times, high, all, costs) == pipeline_limit::link);
  while (high > 1.01 * low) {
    const double middle = std::sqrt(low * high);
    (limit_with(times, middle, all, costs) == pipeline_limit::link ? low : high) = middle;
  }
  const double unit = std::pow(10, std::floor(std::log10(high)) - 1);
  return std::ceil(high / unit) * unit;
}

/// One sentence.
std::string reason(const pipeline_times& times, const step_times& step) {
  const pipeline_prediction& found = step.found;
  const double whole = ms(found.simulated.slots), bubble = ms(found.bubble_slots),
               link = ms(found.link_slots);
  switch (found.decides()) {
    case pipeline_limit::compute:
      return fmt::format(
          "computation decides: bubble and messages together are {:.1f} % of the step",
          100 * (bubble + link) / whole);
    case pipeline_limit::bubble:
      return fmt::format("the bubble decides: it adds {:.2f} ms, and the messages {:.2f} ms",
                         bubble, link);
    case pipeline_limit::link:
      break;
  }
  std::string text = fmt::format(
      "the link decides: its messages add {:.2f} ms, and the bubble {:.2f} ms", link, bubble);
  if (step.enough_gbit) {
    return text + fmt::format("; not from {:.4g} Gbit/s on", *step.enough_gbit);
  }
  return text + fmt::format("; at any bandwidth, with {} us of latency", times.latency_us);
}

}  // namespace

void pipeline_times::declare(cli::command_line& line) {
  line.option("forward-ms", forward_ms, min_ms, max_ms,
              "duration of each stage's forward: shows the time of a step, and what decides it");
  line.option("backward-ms", backward_ms, min_ms, 2 * max_ms,
              "duration of each stage's backward, both parts (default: twice the forward)");
  line.option("slot-us", slot_us, min_ms, 1e3 * max_ms,
              "the unit of --costs in microseconds, instead of --forward-ms");
  line.bytes("message-bytes", message_bytes,
             "bytes of a micro-batch's activations, and of its gradients, between two stages; 0: "
             "messages take no time");
  line.option("link-gbit", link_gbit, min_gbit, max_gbit,
              "bandwidth between two ranks, each way, in Gbit/s (1e9)");
  line.option("latency-us", latency_us, 0, 1e6, "time of a message without its bytes");
}

void pipeline_times::check(const cli::command_line& line) const {
  if (line.given("forward-ms") && line.given("costs")) {
    throw bad_times("--forward-ms and --costs exclude each other",
                    "for stages that differ, give --costs with --slot-us");
  }
  if (line.given("backward-ms") && !line.given("forward-ms"))
    throw bad_times("--backward-ms: without --forward-ms", "give both");
  if (line.given("slot-us") && !line.given("costs"))
    throw bad_times("--slot-us: without --costs", "give both, or --forward-ms");
  for (const char* const name : {"message-bytes", "link-gbit", "latency-us"}) {
    if (line.given(name) && !given()) {
      throw bad_times(fmt::format("--{}: without the time of the computations", name),
                      "give --forward-ms, or --costs and --slot-us");
    }
  }
  if (message_bytes > 0 && !line.given("link-gbit"))
    throw bad_times("--message-bytes: without --link-gbit", "give both");
  if (message_bytes == 0 && (line.given("link-gbit") || line.given("latency-us")))
    throw bad_times("--message-bytes is missing", "for example --message-bytes 32M");
  if (static_cast<double>(message_bytes) > max_message_bytes)
    throw bad_times(fmt::format("--message-bytes={}: too long", format_bytes(message_bytes)), "");
}

std::vector<stage_cost> pipeline_times::costs_ns(const std::vector<stage_cost>& slots) const {
  if (forward_ms > 0) {
    const double backward = backward_ms > 0 ? backward_ms : 2 * forward_ms;
    const int half = rounded_ns(backward * 1e6 / 2);
    return std::vector<stage_cost>(slots.size(), {rounded_ns(forward_ms * 1e6), half, half});
  }
  std::vector<stage_cost> costs;
  const auto ns = [this](int cost) {
    const double found = cost * slot_us * 1e3;
    if (found <= max_cost_ns) return rounded_ns(found);
    throw bad_times(fmt::format("--slot-us={}: a step of {:.4g} s", slot_us, found / 1e9),
                    "use a shorter unit: steps take at most a second");
  };
  for (const stage_cost& each : slots) {
    costs.push_back({ns(each.forward), ns(each.backward_input), ns(each.backward_weights)});
  }
  return costs;
}

std::vector<stage_cost> pipeline_times::costs_us(const std::vector<stage_cost>& slots) const {
  std::vector<stage_cost> costs = costs_ns(slots);
  for (stage_cost& each : costs) {
    for (int* const one : {&each.forward, &each.backward_input, &each.backward_weights})
      *one = std::max(*one / 1000, 1);
  }
  return costs;
}

message_cost pipeline_times::message_ns(double gbit) const {
  if (message_bytes == 0) return {};
  return {std::llround(8 * static_cast<double>(message_bytes) / gbit),
          std::llround(latency_us * 1e3)};
}

step_times predict_step(const pipeline_times& times, const pipeline_schedule& all,
                        const std::vector<stage_cost>& slots) {
  const std::vector<stage_cost> costs = times.costs_ns(slots);
  step_times step{predict(all, costs, times.message_ns()), {}};
  if (step.found.decides() == pipeline_limit::link)
    step.enough_gbit = find_enough_gbit(times, all, costs);
  return step;
}

std::string times_text(const pipeline_times& times, const step_times& step) {
  const schedule_check& simulated = step.found.simulated;
  std::string text;
  if (times.message_bytes > 0) {
    const message_cost one = times.message_ns();
    text = fmt::format("messages of {} over {:.4g} Gbit/s: {:.3f} ms, and {:.3f} ms of latency\n",
                       format_bytes(times.message_bytes), times.link_gbit, ms(one.transmission),
                       ms(one.latency));
  }
  text += "rank  compute ms  waits for messages  for other ranks  peak stash\n";
  for (std::size_t r = 0; r < simulated.busy_slots.size(); ++r) {
    const std::int64_t busy = simulated.busy_slots[r], messages = simulated.message_slots[r];
    text += fmt::format("{:<5} {:<11.2f} {:<19.2f} {:<16.2f} {}\n", r, ms(busy), ms(messages),
                        ms(simulated.slots - busy - messages), simulated.peak_stash[r]);
  }
  return text +
         fmt::format("step: {:.2f} ms = {:.2f} compute + {:.2f} bubble + {:.2f} messages\n{}\n",
                     ms(simulated.slots), ms(step.found.compute_slots), ms(step.found.bubble_slots),
                     ms(step.found.link_slots), reason(times, step));
}

std::string times_json(const step_times& step) {
  const pipeline_prediction& found = step.found;
  return fmt::format(
      "\"step_ms\": {}, \"compute_ms\": {}, \"bubble_ms\": {}, \"link_ms\": {}, \"decides\": "
      "\"{}\", \"enough_gbit\": {}",
      ms(found.simulated.slots), ms(found.compute_slots), ms(found.bubble_slots),
      ms(found.link_slots), name(found.decides()),
      step.enough_gbit ? fmt::format("{}", *step.enough_gbit) : "null");
}

}  // namespace tandem::planner
