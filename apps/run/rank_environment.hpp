#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>
#include <utility>
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

/// The files of Tandem's libnccl.so.2 and librccl.so.1: beside this program in a build, in the
/// folder of libraries of an installation, or in the Python package of a wheel.
/// @par Errors thrown: `errc::bad_option`: they are not there, with the folders.
std::vector<std::string> nccl_libraries();

/// What makes programs use them instead of their own: LD_PRELOAD, because PyTorch's libraries find
/// theirs by DT_RPATH, which precedes LD_LIBRARY_PATH.
void add_nccl(std::vector<std::pair<std::string, std::string>>& environment,
              const std::vector<std::string>& libraries);

/// A free loopback port, reserved for rank 0 by a socket that is bound but does not listen: the
/// kernel assigns the port to no other process, and a listener with SO_REUSEADDR can still bind it.
std::uint16_t reserve_port(boost::asio::ip::tcp::socket& holder);

}  // namespace tandem::launcher
