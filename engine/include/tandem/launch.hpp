/// The place of this process in the job, as its launcher says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tandem/settings.hpp>

#pragma GCC visibility push(default)

namespace tandem {

/// This process's rank in the job and the address of rank 0's store.
struct launch_info {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string address;     ///< of rank 0's store
  std::uint16_t port = 0;  ///< of rank 0's store
  std::string job;         ///< run id: distinguishes jobs, and incarnations of a restarted job
  std::string launcher;    ///< the source of these: "torchrun", "tandem run", "Slurm", ...
  /// The launcher set `local_size`: if it is below `size`, some ranks run on other hosts.
  bool local_size_known = false;
  /// Whether this rank serves the store; empty: if it is rank 0. One rank does.
  std::optional<bool> serves_store = {};

  bool is_server() const noexcept { return serves_store.value_or(rank == 0); }
};

/// Reads an environment variable; empty if it is not set. Tests pass a map.
using environment = std::function<std::optional<std::string>(const std::string&)>;
/// The environment of this process.
environment process_environment();

/// Determines rank, size and address from the launcher's variables. Empty if no launcher is found.
/// The first complete set is used:
///
/// 1. torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; LOCAL_RANK, LOCAL_WORLD_SIZE. The job
///    is TORCHELASTIC_RUN_ID with TORCHELASTIC_RESTART_COUNT. If TORCHELASTIC_USE_AGENT_STORE is
///    True, torchrun itself serves MASTER_PORT, and the next port is used. Without a run id and
///    with TANDEM_RANK, TANDEM_SIZE and TANDEM_RENDEZVOUS that agree, the launcher is "tandem run"
///    and the job is TANDEM_JOB.
/// 2. Tandem: TANDEM_RANK, TANDEM_SIZE, TANDEM_RENDEZVOUS (host:port); TANDEM_LOCAL_RANK,
///    TANDEM_LOCAL_SIZE, TANDEM_JOB.
/// 3. Open MPI (OMPI_COMM_WORLD_*), MPICH and others with PMI (PMI_*, MPI_LOCAL*), MVAPICH2
///    (MV2_COMM_WORLD_*). They provide no address: set TANDEM_RENDEZVOUS, or MASTER_ADDR and
///    MASTER_PORT. Otherwise the ranks of one host use loopback and a port computed from the
///    launcher's job id, if it has one.
/// 4. Slurm, in a step of srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID,
///    SLURM_NODEID. Address as in 3, else the first host of the step (loopback for a step on one
///    node), port 15000 + job mod 20000.
///
/// If no variable gives the local rank and size, a loopback address implies that all ranks are on
/// this host.
/// @par Errors `errc::bad_input`, naming the variable: an incomplete or contradictory set, or an
///   invalid address (a port or a URL in MASTER_ADDR). "[::1]" is the address ::1.
std::optional<launch_info> find_launch(const environment& get = process_environment());

/// The host identity that ranks on one host have in common: `settings::host`, else the host name
/// and the boot id.
std::string host_name(const settings& options);

}  // namespace tandem

#pragma GCC visibility pop
