#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run.hpp"

namespace tandem::launcher {

/// Parameters common to all ranks of a job.
struct job_environment {
  std::uint16_t port = 0;
  std::string name;
  std::string secret;
  /// Parameters of a new job, with a generated name and secret.
  static job_environment make(std::uint16_t port);
};

/// The environment of one rank, "NAME=value": the launcher's own, the plan's, and the rank's
/// variables.
std::vector<std::string> rank_environment(const launch_plan& plan, int rank,
                                          const job_environment& job_env);

}  // namespace tandem::launcher
