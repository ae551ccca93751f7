#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run.hpp"

namespace tandem::launcher {

/// What all ranks of one job get.
struct job_environment {
  std::uint16_t port = 0;
  std::string name;
  std::string secret;
  /// A job of its own, with a secret that only its ranks know.
  static job_environment make(std::uint16_t port);
};

/// One rank's variables, "NAME=value": what the launcher inherited, the plan's, and its place.
std::vector<std::string> rank_environment(const launch_plan& plan, int rank,
                                          const job_environment& of_job);

}  // namespace tandem::launcher
