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
  /// For ranks to end by themselves, after the failure of another one or a stop signal.
  std::chrono::milliseconds grace{3000};
  std::chrono::milliseconds kill_after{2000};  ///< from SIGTERM to SIGKILL
  std::string name = "tandem run";             ///< begins the launcher's own messages
  int output = 1;                              ///< descriptors that get the ranks' output
  int error_output = 2;
};

/// Starts the ranks with TANDEM_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _RENDEZVOUS and _JOB, and
/// the same as RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT; waits
/// until all have ended. Standard input is empty for all of them.
///
/// When one fails, the others get `grace`, then SIGTERM, then SIGKILL after `kill_after`, and one
/// line on standard error says who failed first, how, and its last words. A stop signal (INT, TERM,
/// HUP, QUIT; PIPE, when nobody reads the output; a terminal that is gone counts as HUP) is passed
/// on to the ranks, which have as long as after a failure; a second one ends them at once by
/// SIGTERM, a third by SIGKILL. USR1, USR2, TSTP and CONT are passed on, too. HUP, INT, QUIT, PIPE
/// and TSTP that the process ignores when this is called stay ignored, as under `nohup`.
///
/// No process of the job outlives this call, nor the launcher, even where it is killed: neither
/// descendants of ranks in sessions of their own, nor stopped ones.
///
/// @return 0 if all ranks ended with 0, else the status of the first that failed, 128 + signal
/// where a signal ended it. After a stop signal, before any rank failed: 128 + that signal, however
/// the ranks ended. 1 if all else went well and some of their output could not be written.
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
