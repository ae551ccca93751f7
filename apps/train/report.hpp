#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "rail_record.hpp"

namespace tandem::train {

/// The course of one training: one entry a step.
struct history {
  std::vector<double> loss;        ///< mean cross entropy, nats per token
  std::vector<double> step_s;      ///< wall time of the step, seconds
  std::vector<double> wait_share;  ///< mean over the ranks, of the step's time; 0 to 1
  double tokens_per_step = 0;

  /// Tokens per second over all steps but the first, which warms up.
  double tokens_per_s() const;
};

/// One rank as the report shows it.
struct rank_record {
  std::string name;    ///< "rank 2"
  std::string island;  ///< "amd"
  std::string place;   ///< "stage 1, replica 0"
  std::string layers;  ///< "3-4 and head"
  std::string host;
  std::uint64_t parameters = 0;
  double elapsed_s = 0;
  std::array<double, activity_count> seconds{};  ///< in each activity, over the run
  std::vector<moment> moments;                   ///< of a few steps
  std::vector<rail_history> rails = {};          ///< this rank's ends; empty where there are none
  std::string carried_inside = {};   ///< "shm": what carried its messages within the island
  std::string carried_between = {};  ///< "tcp": and to other islands
};

/// Everything on the page.
struct report {
  std::string title;
  std::string note;  ///< the honest label: what hardware the islands are
  std::vector<std::pair<std::string, std::string>> summary;
  history joint;      ///< over all ranks
  history reference;  ///< the same training in one process; empty where it was not asked for
  std::vector<rank_record> ranks;
  int kept_steps = 0;                   ///< steps that `rank_record::moments` covers
  std::vector<rail_record> rails = {};  ///< between all ranks; empty: no section
};

/// The final loss of both trainings and their difference, in one line; without a reference the loss
/// alone.
std::string verdict(const history& joint, const history& reference);

/// One HTML page that needs nothing else: charts as SVG, light and dark after the reader's choice.
std::string render(const report& page);

}  // namespace tandem::train
