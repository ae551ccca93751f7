#pragma once

#include <tandem/launch.hpp>
#include <vector>

#include "job.hpp"
#include "report.hpp"

namespace tandem::train {

/// What came of a training.
struct outcome {
  history course;
  std::vector<rank_record> ranks;  ///< on rank 0; empty elsewhere
  int kept_steps = 0;
};

/// One rank's part of a training: meets the others, makes sure that all want the same, trains,
/// collects, and leaves. Blocks until it is over. Rank 0 shows the progress on standard output.
/// @par Errors `errc::call_mismatch`: ranks want different things, and which; what the rendezvous,
/// the channels and the
///   collectives report; every rank of the job hears of it.
outcome train_together(const job& what, const launch_info& who);

/// All of a job of one rank, in this process and without a socket.
outcome train_alone(const job& what, const std::string& label);

}  // namespace tandem::train
