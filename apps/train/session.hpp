#pragma once

#include <optional>
#include <tandem/launch.hpp>
#include <vector>

#include "job.hpp"
#include "report.hpp"

namespace tandem::train {

/// Result of a training run.
struct outcome {
  int rank = 0;  ///< at the end, when it may be another than at the start
  history metrics;
  std::vector<rank_record> ranks;  ///< on rank 0; empty elsewhere
  int kept_steps = 0;
  std::vector<replica_change> changes;  ///< where replicas were lost
  std::optional<layout> last_layout;    ///< then: the one at the end
};

/// One rank's part of a training: rendezvous, comparison of the settings, training, collection of
/// the records, shutdown. Blocks until all of it is done. Rank 0 shows the progress on standard
/// output. With `options::survive`, replicas whose ranks are all left go on after a loss, from the
/// last step that all of them have done; a rank of another replica throws `errc::peer_lost`.
/// @par Errors `errc::call_mismatch`: ranks have different settings, and which; the errors of the
/// rendezvous, the channels and the collectives. Every rank of the job receives the error.
outcome train_distributed(const job& what, const launch_info& who);

/// Runs a job of one rank in this process, without sockets.
outcome train_single_process(const job& what, const std::string& label);

}  // namespace tandem::train
