#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem::launcher {

/// What to start: `ranks` processes of one command on this machine, as one job.
struct launch_plan {
  int ranks = 1;
  std::vector<std::string> command;  ///< program, looked up in PATH, and arguments
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< in addition to what the ranks inherit
  /// True: each line of output gets "[rank] " before it. False: ranks write to the launcher's own
  /// standard output, so that a terminal stays one, and their standard error is passed on as it
  /// comes.
  bool prefix = true;
  std::uint16_t port = 0;  ///< where rank 0 shall listen on loopback; 0 finds a free one
  std::chrono::milliseconds grace{3000};  ///< for the others to end by themselves after a failure
  std::chrono::milliseconds kill_after{2000};  ///< from SIGTERM to SIGKILL
  std::string name = "tandem run";             ///< begins the launcher's own messages
  int output = 1;                              ///< descriptors that get the ranks' output
  int error_output = 2;
};

/// Starts the ranks with TANDEM_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _RENDEZVOUS and _JOB, and
/// the same as RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT; waits
/// until all have ended. Standard input is empty for all of them.
///
/// When one fails, the others get `grace`, then SIGTERM, then SIGKILL, and one line on standard
/// error says who failed first, how, and its last words. INT, TERM, HUP, USR1 and USR2 are passed
/// on to the ranks; a second INT, TERM or HUP ends them as a failure does. No process of the job
/// outlives this call, nor the launcher, even where it is killed; only one that left the process
/// group of the job could.
///
/// @return 0 if all ranks ended with 0, else the status of the first that failed, 128 + signal
/// where a
///   signal ended it.
/// @par Errors  `errc::bad_input`: the command cannot be started (why); nothing runs then.
/// `errc::limit_exceeded`: no descriptors, processes or memory for so many ranks, and which limit
/// to raise. The soft limit of descriptors is raised for this process where it is too low; ranks
/// get the one that it had.
/// @pre No other child of this process is being waited for in another thread.
int launch_local(const launch_plan& plan);

/// This program with these arguments, for a subcommand that starts its own ranks.
std::vector<std::string> self_command(std::span<const std::string> args);

/// `tandem run -n N [--] COMMAND ARGS...`; the exit status.
int run_main(std::span<const std::string> args);

}  // namespace tandem::launcher
