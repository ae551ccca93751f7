#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string_view>
#include <tandem/detail/number_text.hpp>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <utility>

#include "rendezvous/host_text.hpp"

namespace tandem {
namespace {

using variable = std::optional<std::string>;
constexpr long max_ranks = 1'000'000;
constexpr long max_port = 65535;

/// Variables by which a launcher passes rank and size to a process.
struct launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr launcher torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr launcher own{"tandem", "TANDEM_RANK", "TANDEM_SIZE", "TANDEM_LOCAL_RANK",
                       "TANDEM_LOCAL_SIZE"};
constexpr launcher slurm{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};
constexpr launcher hydra{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

/// An MPI launcher, its job id variables, and how it passes a variable to every rank.
struct mpi_launcher {
  launcher names;
  const char* job[2];
  const char* export_option;
};

constexpr mpi_launcher mpi_launchers[] = {
    {{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     "mpirun -x TANDEM_RENDEZVOUS=host:port"},
    {hydra, {"PMI_JOBID", "MPIRUN_ID"}, "mpiexec -genv TANDEM_RENDEZVOUS host:port"},
    {{"MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
      "MV2_COMM_WORLD_LOCAL_SIZE"},
     {"MPIRUN_ID", "PMI_JOBID"},
     "mpirun_rsh ... TANDEM_RENDEZVOUS=host:port"},
};

[[noreturn]] void refuse(std::string detail, std::string advice) {
  throw error(errc::bad_input, std::move(detail), std::move(advice));
}

/// An empty variable counts as not set: `docker run -e RANK=` sets such.
variable read(const environment& get, const std::string& name) {
  variable value = get(name);
  if (value && value->empty()) value.reset();
  return value;
}

bool has(const environment& get, const char* name) {
  return read(get, name).has_value();
}

long number(std::string_view name, std::string_view text, long low, long high) {
  long value = 0;
  if (detail::read_number(text, value) == detail::number_kind::not_a_number) {
    refuse(fmt::format("{}={} is not a whole number", name, text),
           fmt::format("set it to a number from {} to {}, or unset it", low, high));
  }
  if (value < low || value > high) {
    refuse(fmt::format("{}={} is out of range", name, text),
           fmt::format("set it to a number from {} to {}", low, high));
  }
  return value;
}

long number(const environment& get, const char* name, long low, long high) {
  const variable text = read(get, name);
  if (!text)
    refuse(fmt::format("{} is not set", name), fmt::format("set {}, or unset the rest", name));
  return number(name, *text, low, high);
}

void set_rank_and_size(const environment& get, const launcher& by, const char* size_name,
                       launch_info& info) {
  info.launcher = by.name;
  info.size = static_cast<int>(number(get, size_name, 1, max_ranks));
  info.rank = static_cast<int>(number(get, by.rank, 0, max_ranks));
  if (info.rank >= info.size) {
    refuse(fmt::format("{}={} does not fit {}={}", by.rank, info.rank, size_name, info.size),
           fmt::format("ranks count from 0 to {}: correct one of the two", info.size - 1));
  }
}

/// What the launcher does not provide follows from the address: with a loopback address, all ranks
/// are on this host.
void set_local_rank_and_size(const environment& get, const launcher& by, launch_info& info) {
  const bool one_host = rendezvous::is_loopback_host(info.address) || info.size == 1;
  const bool known_rank = has(get, by.local_rank);
  info.local_rank = one_host ? info.rank : 0;
  if (known_rank) info.local_rank = static_cast<int>(number(get, by.local_rank, 0, max_ranks));
  info.local_size = one_host ? info.size : info.local_rank + 1;
  info.local_size_known = has(get, by.local_size);
  if (info.local_size_known) {
    info.local_size = static_cast<int>(number(get, by.local_size, 1, info.size));
    if (!known_rank && !one_host) info.local_rank = info.rank % info.local_size;
  }
  if (info.local_rank >= info.local_size) {
    refuse(fmt::format("{}={} does not fit a local size of {}", by.local_rank, info.local_rank,
                       info.local_size),
           fmt::format("local ranks count from 0: correct {} or {}", by.local_rank, by.local_size));
  }
}

/// "host:port", "[v6]:port".
void set_rendezvous(const std::string& text, launch_info& info) {
  constexpr auto advice = "write TANDEM_RENDEZVOUS=host:port, for IPv6 [address]:port";
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const bool bare_v6 = !host.starts_with('[') && host.find(':') != std::string::npos;
  const bool bare_brackets = text.starts_with('[') && text.find("]:") == std::string::npos;
  if (colon == std::string::npos || host.empty() || bare_v6 || bare_brackets) {
    refuse(fmt::format("TANDEM_RENDEZVOUS={} is not host:port", text), advice);
  }
  const long port = number("the port of TANDEM_RENDEZVOUS", text.substr(colon + 1), 1, max_port);
  info.address = rendezvous::parse_host("TANDEM_RENDEZVOUS", host);
  info.port = static_cast<std::uint16_t>(port);
}

/// TANDEM_RENDEZVOUS, or MASTER_ADDR with MASTER_PORT: set by users of launchers that provide no
/// address.
bool set_explicit_address(const environment& get, launch_info& info) {
  if (const variable given = read(get, "TANDEM_RENDEZVOUS")) {
    set_rendezvous(*given, info);
    return true;
  }
  const variable address = read(get, "MASTER_ADDR");
  if (!address || !has(get, "MASTER_PORT")) return false;
  info.address = rendezvous::parse_host("MASTER_ADDR", *address);
  info.port = static_cast<std::uint16_t>(number(get, "MASTER_PORT", 1, max_port));
  return true;
}

/// `tandem run` sets torchrun's variables in addition to its own.
bool own_variables_agree(const environment& get) {
  return has(get, "TANDEM_RENDEZVOUS") && read(get, own.rank) == read(get, torchrun.rank) &&
         read(get, own.size) == read(get, torchrun.size);
}

std::optional<launch_info> from_torchrun(const environment& get) {
  const variable address = read(get, "MASTER_ADDR");
  if (!has(get, torchrun.rank) || !has(get, torchrun.size) || !address ||
      !has(get, "MASTER_PORT")) {
    return {};
  }
  launch_info info;
  set_rank_and_size(get, torchrun, torchrun.size, info);
  info.address = rendezvous::parse_host("MASTER_ADDR", *address);
  long port = number(get, "MASTER_PORT", 1, max_port);
  if (read(get, "TORCHELASTIC_USE_AGENT_STORE") == "True") port += port < max_port ? 1 : -1;
  info.port = static_cast<std::uint16_t>(port);
  set_local_rank_and_size(get, torchrun, info);
  const variable run = read(get, "TORCHELASTIC_RUN_ID");
  const variable restart = read(get, "TORCHELASTIC_RESTART_COUNT");
  if (!run && !restart && own_variables_agree(get)) info.launcher = "tandem run";
  if (run || restart) {
    info.job = fmt::format("{}.{}", run.value_or("none"), restart.value_or("0"));
  } else {
    info.job = read(get, "TANDEM_JOB").value_or("");
  }
  return info;
}

std::optional<launch_info> from_own(const environment& get) {
  const variable rendezvous = read(get, "TANDEM_RENDEZVOUS");
  if (!has(get, own.rank) || !has(get, own.size) || !rendezvous) return {};
  launch_info info;
  set_rank_and_size(get, own, own.size, info);
  set_rendezvous(*rendezvous, info);
  set_local_rank_and_size(get, own, info);
  info.job = read(get, "TANDEM_JOB").value_or("");
  return info;
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits. The range is below Linux's default ephemeral ports.
std::uint16_t port_of_job(std::string_view job) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::uint16_t>(15000 + hash % 17000);
}

std::optional<launch_info> from_mpi(const environment& get, const mpi_launcher& by) {
  if (!has(get, by.names.rank) || !has(get, by.names.size)) return {};
  launch_info info;
  set_rank_and_size(get, by.names, by.names.size, info);
  for (const char* name : by.job) {
    if (info.job.empty()) info.job = read(get, name).value_or("");
  }
  const bool given = set_explicit_address(get, info);
  set_local_rank_and_size(get, by.names, info);
  if (given) return info;
  if (info.local_size != info.size || info.job.empty()) {
    refuse(fmt::format("{} provides rank {} of {}, but not the address of rank 0", by.names.name,
                       info.rank, info.size),
           fmt::format("set TANDEM_RENDEZVOUS: {}", by.export_option));
  }
  info.address = "127.0.0.1";
  info.port = port_of_job(info.job);
  return info;
}

/// The first host of "rack[1-2]n[01-04,9],login": the first number of each bracket, with its
/// leading zeros.
std::string first_host(const char* name, const std::string& list) {
  std::string host;
  std::size_t at = 0;
  while (at < list.size() && list[at] != ',') {
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    const std::size_t close = list.find(']', at);
    const std::size_t end = list.find_first_of("-,]", at);
    if (close == std::string::npos || end == at + 1) break;
    host += list.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  const bool complete = at >= list.size() || list[at] == ',';
  if (!complete || host.empty() || host.find(']') != std::string::npos) {
    refuse(fmt::format("{}={} is not a host list", name, list),
           "set TANDEM_RENDEZVOUS=host:port for all ranks");
  }
  return host;
}

/// Number of tasks on node `node`, from "4(x2),3": two nodes of four, then one of three.
long tasks_on_node(const char* name, std::string_view text, long node) {
  const std::string_view all = text;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    long nodes = 1;
    const std::size_t open = part.find("(x");
    if (open != std::string_view::npos && part.ends_with(')')) {
      nodes = number(name, part.substr(open + 2, part.size() - open - 3), 1, max_ranks);
      part = part.substr(0, open);
    }
    const long tasks = number(name, part, 1, max_ranks);
    if (node < nodes) return tasks;
    node -= nodes;
  }
  refuse(fmt::format("{}={} has no entry for this node's SLURM_NODEID", name, all),
         "set TANDEM_RANK, TANDEM_SIZE and TANDEM_RENDEZVOUS explicitly");
}

const char* first_set(const environment& get, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (has(get, name)) return name;
  }
  return nullptr;
}

/// A batch script has SLURM_PROCID and SLURM_NTASKS too: only `srun` creates a step with an id.
const char* slurm_size(const environment& get) {
  const char* step = first_set(get, {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"});
  if (step == nullptr || !has(get, slurm.rank)) return nullptr;
  return first_set(get, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
}

void set_slurm_address(const environment& get, launch_info& info) {
  if (set_explicit_address(get, info)) return;
  const char* job = first_set(get, {"SLURM_JOB_ID", "SLURM_JOBID"});
  const char* hosts =
      first_set(get, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (job == nullptr || hosts == nullptr) {
    refuse(fmt::format("Slurm provides rank {} of {}, but {} is not set", info.rank, info.size,
                       job == nullptr ? "SLURM_JOB_ID" : "SLURM_STEP_NODELIST"),
           "set TANDEM_RENDEZVOUS=host:port for all ranks");
  }
  const long id = number(get, job, 0, std::numeric_limits<long>::max());
  info.port = static_cast<std::uint16_t>(15000 + id % 20000);
  const bool one_host = info.local_size == info.size;
  info.address = one_host ? "127.0.0.1" : first_host(hosts, read(get, hosts).value_or(""));
}

std::optional<launch_info> from_slurm(const environment& get) {
  const char* size_name = slurm_size(get);
  if (size_name == nullptr) return {};
  launch_info info;
  set_rank_and_size(get, slurm, size_name, info);
  info.local_size = info.size == 1 ? 1 : info.local_size;
  const char* tasks = first_set(get, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  info.local_size_known = tasks != nullptr;
  if (tasks != nullptr) {
    const long node = has(get, "SLURM_NODEID") ? number(get, "SLURM_NODEID", 0, max_ranks) : 0;
    info.local_size = static_cast<int>(tasks_on_node(tasks, *read(get, tasks), node));
  }
  info.local_rank = 0;
  if (has(get, slurm.local_rank)) {
    info.local_rank = static_cast<int>(number(get, slurm.local_rank, 0, max_ranks));
  }
  if (tasks == nullptr) info.local_size = info.local_rank + 1;
  if (info.local_rank >= info.local_size || info.local_size > info.size) {
    refuse(fmt::format("SLURM_LOCALID={} and {} tasks on this node do not fit {}={}",
                       info.local_rank, info.local_size, size_name, info.size),
           "start the ranks with srun, or set TANDEM_RANK, TANDEM_SIZE and TANDEM_RENDEZVOUS");
  }
  set_slurm_address(get, info);
  const char* job = first_set(get, {"SLURM_JOB_ID", "SLURM_JOBID"});
  const char* step = first_set(get, {"SLURM_STEP_ID", "SLURM_STEPID"});
  info.job = job != nullptr ? *read(get, job) : "";
  if (step != nullptr) info.job += fmt::format(".{}", *read(get, step));
  // A requeued job keeps its id and restarts its step numbers at 0.
  if (const variable restart = read(get, "SLURM_RESTART_COUNT"))
    info.job += fmt::format(".r{}", *restart);
  return info;
}

/// `srun --mpi=pmi2` sets PMI's variables in addition to Slurm's, which are more complete.
bool slurm_variables_agree(const environment& get) {
  const char* size_name = slurm_size(get);
  return size_name != nullptr && read(get, hydra.rank) == read(get, slurm.rank) &&
         read(get, hydra.size) == read(get, size_name);
}

/// If no set is complete, a partial one is an error: report what is missing.
void refuse_partial_set(const environment& get) {
  const auto need = [&get](const launcher& by, std::initializer_list<const char*> names) {
    if (!has(get, by.rank) && !has(get, by.size)) return;
    const char* there = has(get, by.rank) ? by.rank : by.size;
    for (const char* name : names) {
      if (has(get, name)) continue;
      refuse(fmt::format("{}={} is set, but {} is not", there, *read(get, there), name),
             fmt::format("set {}, or unset {} to start a single process", name, there));
    }
  };
  need(torchrun, {torchrun.rank, torchrun.size, "MASTER_ADDR", "MASTER_PORT"});
  need(own, {own.rank, own.size, "TANDEM_RENDEZVOUS"});
  for (const mpi_launcher& by : mpi_launchers) need(by.names, {by.names.rank, by.names.size});
}

}  // namespace

environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return {};
    return std::string(value);
  };
}

std::optional<launch_info> find_launch(const environment& get) {
  std::optional<launch_info> found = from_torchrun(get);
  if (!found) found = from_own(get);
  for (const mpi_launcher& by : mpi_launchers) {
    if (found) return found;
    if (std::string_view(by.names.rank) == hydra.rank && slurm_variables_agree(get)) continue;
    found = from_mpi(get, by);
  }
  if (!found) found = from_slurm(get);
  if (!found) refuse_partial_set(get);
  return found;
}

std::string host_name(const settings& options) {
  if (!options.host.empty()) return options.host;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}:{}", name.data(), boot);
}

}  // namespace tandem
