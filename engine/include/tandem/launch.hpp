#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tandem {

/// This process's place in the job and where rank 0's store listens.
struct launch_info {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string address;     ///< of rank 0's store
  std::uint16_t port = 0;  ///< of rank 0's store
  std::string job;         ///< run id: keeps two jobs, and two lives of one job, apart
  std::string launcher;    ///< who said so: "torchrun", "Open MPI", "Slurm", ...
};

/// Reads a variable; empty where it is not set. Tests pass a map.
using environment = std::function<std::optional<std::string>(const std::string&)>;
environment process_environment();

/// Finds rank, size and address from the launcher's variables. A complete RANK, WORLD_SIZE,
/// MASTER_ADDR, MASTER_PORT wins; then Tandem's own, Open MPI, MPICH and PMI, Slurm. Empty where no
/// launcher is found.
/// @par Errors `errc::bad_input`: an incomplete or contradictory set, naming the variable.
std::optional<launch_info> find_launch(const environment& get = process_environment());

}  // namespace tandem
