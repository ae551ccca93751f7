#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem::launcher {

/// A job to start: `ranks` processes of one command on this machine.
struct launch_plan {
  int ranks = 1;
  std::vector<std::string> command;  ///< program, looked up in PATH, and arguments
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< in addition to what the ranks inherit
  /// True: each line of output is prefixed with "[rank] ". False: ranks inherit the launcher's
  /// standard output, so that a terminal stays one, and their standard error is relayed unchanged.
  bool prefix = true;
  std::uint16_t port = 0;  ///< loopback port on which rank 0 listens; 0 picks a free one
  /// Time for ranks to exit by themselves after the failure of another rank or a stop signal.
  std::chrono::milliseconds grace{3000};
  std::chrono::milliseconds kill_after{2000};  ///< from SIGTERM to SIGKILL
  std::string name = "tandem run";             ///< prefix of the launcher's messages
  /// Where more than 0: a rank that fails does not end the others while so many are left.
  int min_survivors = 0;
  int output = 1;  ///< descriptors for the ranks' output
  int error_output = 2;
};

/// Starts the ranks with TANDEM_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _RENDEZVOUS and _JOB, and
/// the same as RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT; waits
/// until all have ended. Standard input is empty for all of them.
///
/// When one fails, the others get `grace`, then SIGTERM, then SIGKILL after `kill_after`, and one
/// line on standard error names the rank that failed first, its exit status and its last lines on
/// standard error. A stop signal (INT, TERM, HUP, QUIT; PIPE, when the output is closed; a hang-up
/// of the terminal counts as HUP) is forwarded to the ranks, which get the same time as after a
/// failure; a second one sends SIGTERM at once, a third SIGKILL. USR1, USR2, TSTP and CONT are
/// forwarded as well. HUP, INT, QUIT, PIPE and TSTP that the process ignores when this is called
/// stay ignored, as under `nohup`.
///
/// With `min_survivors`, that is so for the failure that leaves fewer; an earlier one is a line on
/// standard error, and the status is 0 if the ranks that are left exit with 0.
///
/// Descendants of the ranks get the signals as well, in whatever process group or session, and
/// after a signal they have the same time as the ranks, even if these have ended. No process of the
/// job outlives this call, or the launcher even if it is killed: neither descendants of ranks in
/// sessions of their own, nor stopped processes. See `reaper` for the one exception.
///
/// @return 0 if all ranks exited with 0, else the status of the first that failed, or 128 + signal
/// if a signal ended it. After a stop signal, before any rank failed: 128 + that signal, however
/// the ranks ended. 1 if all ranks succeeded but some of their output could not be written.
/// @par Errors  `errc::bad_input`: the command cannot be started (why); no process is left running.
/// `errc::limit_exceeded`: no descriptors, processes or memory for so many ranks, and which limit
/// to raise. The soft limit of descriptors is raised for this process if it is too low; ranks get
/// the original one.
/// @pre No other child of this process is being waited for in another thread.
int launch_local(const launch_plan& plan);

/// The command line of this program with these arguments, for a subcommand that starts ranks.
std::vector<std::string> self_command(std::span<const std::string> args);

/// `tandem run -n N [--] COMMAND ARGS...`; the exit status.
int run_main(std::span<const std::string> args);

}  // namespace tandem::launcher
