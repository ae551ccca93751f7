#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chart.hpp"
#include "rail_record.hpp"

namespace tandem::train {

/// Metrics of one run, one entry per step.
struct history {
  std::vector<double> loss;    ///< mean cross entropy, nats per token
  std::vector<double> step_s;  ///< wall time of the step, seconds
  std::vector<double>
      wait_share;              ///< waiting share of the step's time, mean over the ranks; 0 to 1
  std::vector<double> tokens;  ///< of the step

  /// Tokens per second over all steps except the first, which is the warm-up.
  double tokens_per_s() const;
};

/// One rank's data for the report.
struct rank_record {
  std::string name;           ///< "rank 2"
  std::string island;         ///< "amd"
  std::string rank_location;  ///< "stage 1, replica 0"
  std::string layers;         ///< "3-4, head"
  std::string host;
  std::uint64_t parameters = 0;
  double elapsed_s = 0;
  std::array<double, activity_count> seconds{};  ///< per activity, over the run
  std::vector<interval> intervals;               ///< from a few steps
  std::vector<pipeline_run> pipeline_runs = {};
  std::vector<rail_history> rails = {};  ///< this rank's ends; empty if there are no rails
  std::string transports_inside = {};    ///< transports within the island, "shm"
  std::string transports_between = {};   ///< transports to other islands, "tcp"
};

/// Content of the report page.
struct report {
  std::string title;
  std::string note;  ///< the hardware that the islands ran on
  std::vector<std::pair<std::string, std::string>> summary;
  history joint;      ///< over all ranks
  history reference;  ///< the same training in one process; empty if not requested
  std::vector<rank_record> ranks;
  int kept_steps = 0;                   ///< steps that `rank_record::intervals` covers
  std::vector<rail_record> rails = {};  ///< between all ranks; empty: no section
};

/// The final loss of both runs and their difference in one line; without a reference only the loss.
std::string loss_comparison(const history& joint, const history& reference);

/// A self-contained HTML page: charts as inline SVG, light or dark as the reader's system prefers.
std::string render(const report& page);

}  // namespace tandem::train
