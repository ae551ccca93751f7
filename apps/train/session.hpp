#pragma once

#include <tandem/launch.hpp>
#include <vector>

#include "job.hpp"
#include "report.hpp"

namespace tandem::train {

/// Result of a training run.
struct outcome {
  history metrics;
  std::vector<rank_record> ranks;  ///< on rank 0; empty elsewhere
  int kept_steps = 0;
};

/// One rank's part of a training: rendezvous, comparison of the settings, training, collection of
/// the records, shutdown. Blocks until all of it is done. Rank 0 shows the progress on standard
/// output.
/// @par Errors `errc::call_mismatch`: ranks have different settings, and which; the errors of the
/// rendezvous, the channels and the collectives. Every rank of the job receives the error.
outcome train_distributed(const job& what, const launch_info& who);

/// Runs a job of one rank in this process, without sockets.
outcome train_single_process(const job& what, const std::string& label);

}  // namespace tandem::train
