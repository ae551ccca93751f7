#pragma once

#include <optional>
#include <string>
#include <tandem/pipeline_schedule.hpp>
#include <vector>

#include "cli/command_line.hpp"

namespace tandem::planner {

/// How long computations and messages take, in users' units. Slots are nanoseconds then.
struct pipeline_times {
  double forward_ms = 0, backward_ms = 0;  ///< of each stage; 0: not given
  double slot_us = 0;                      ///< the unit of --costs; 0: not given
  std::size_t message_bytes = 0;           ///< 0: messages take no time
  double link_gbit = 0, latency_us = 0;

  void declare(cli::command_line& line);
  /// @par Errors `errc::bad_option`: options that exclude each other or are missing.
  void check(const cli::command_line& line) const;
  bool given() const { return forward_ms > 0 || slot_us > 0; }

  /// From costs in slots. @pre given() @par Errors `errc::bad_option`: a step of several seconds.
  std::vector<stage_cost> costs_ns(const std::vector<stage_cost>& slots) const;
  /// The same in microseconds, at least 1: for `make_schedule`, whose costs are bounded.
  std::vector<stage_cost> costs_us(const std::vector<stage_cost>& slots) const;
  message_cost message_ns() const { return message_ns(link_gbit); }
  message_cost message_ns(double gbit) const;
};

/// The time of a step, what it consists of, and what decides it.
struct step_times {
  pipeline_prediction found;
  /// Where the link decides: from this bandwidth on it does not; nothing: its latency does.
  std::optional<double> enough_gbit;
};
/// @pre times.given(), `check` finds no problem.
step_times predict_step(const pipeline_times& times, const pipeline_schedule& all,
                        const std::vector<stage_cost>& slots);

/// A line for each rank, the time of a step as a sum, and one sentence on what decides it.
std::string times_text(const pipeline_times& times, const step_times& step);
/// Members of a JSON object, without braces.
std::string times_json(const step_times& step);

}  // namespace tandem::planner
