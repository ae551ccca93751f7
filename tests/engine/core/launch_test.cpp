#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <vector>

#include "support/environment_variable.hpp"

namespace {

using variables = std::map<std::string, std::string>;

std::optional<tandem::launch_info> find(const variables& set) {
  return tandem::find_launch([&set](const std::string& name) -> std::optional<std::string> {
    const auto found = set.find(name);
    if (found == set.end()) return {};
    return found->second;
  });
}

variables operator+(variables left, const variables& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

const variables torchrun{{"RANK", "3"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "n1"},
                         {"MASTER_PORT", "29400"},
                         {"TORCHELASTIC_RUN_ID", "run"},
                         {"TORCHELASTIC_RESTART_COUNT", "2"}};
const variables own{{"TANDEM_RANK", "1"},       {"TANDEM_SIZE", "4"},
                    {"TANDEM_LOCAL_RANK", "1"}, {"TANDEM_LOCAL_SIZE", "2"},
                    {"TANDEM_JOB", "j"},        {"TANDEM_RENDEZVOUS", "10.0.0.1:29500"}};
const variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "1884815361"}};
const variables mpich{
    {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const variables mvapich{{"MV2_COMM_WORLD_RANK", "2"},
                        {"MV2_COMM_WORLD_SIZE", "3"},
                        {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
                        {"MV2_COMM_WORLD_LOCAL_SIZE", "1"}};
const variables slurm{{"SLURM_PROCID", "5"},
                      {"SLURM_STEP_NUM_TASKS", "7"},
                      {"SLURM_NTASKS", "99"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"},
                      {"SLURM_STEP_NODELIST", "n[08-10]"},
                      {"SLURM_JOB_NODELIST", "n[01-20]"},
                      {"SLURM_JOB_ID", "123456"},
                      {"SLURM_STEP_ID", "4"}};
const variables rendezvous{{"TANDEM_RENDEZVOUS", "host:1234"}};

TEST(launch, nothing_set_is_no_launch) {
  EXPECT_FALSE(find({}));
  EXPECT_FALSE(find({{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "1"}}));
  EXPECT_FALSE(find({{"RANK", ""}, {"WORLD_SIZE", ""}}));
  EXPECT_FALSE(find(rendezvous));
}

TEST(launch, torchrun_sets_everything) {
  const auto info = find(torchrun);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->rank, 3);
  EXPECT_EQ(info->size, 8);
  EXPECT_EQ(info->local_rank, 1);
  EXPECT_EQ(info->local_size, 2);
  EXPECT_EQ(info->address, "n1");
  EXPECT_EQ(info->port, 29400);
  EXPECT_EQ(info->job, "run.2");
  EXPECT_EQ(info->launcher, "torchrun");
}

TEST(launch, port_served_by_torchrun_agent_is_not_used) {
  EXPECT_EQ(find(torchrun + variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}})->port, 29401);
  EXPECT_EQ(find(torchrun + variables{{"TORCHELASTIC_USE_AGENT_STORE", "False"}})->port, 29400);
  EXPECT_EQ(
      find(torchrun + variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}})
          ->port,
      65534);
}

TEST(launch, loopback_address_implies_local_rank) {
  const variables bare{{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_PORT", "5"}};
  const auto here = find(bare + variables{{"MASTER_ADDR", "127.0.0.1"}});
  EXPECT_EQ(here->local_rank, 1);
  EXPECT_EQ(here->local_size, 3);
  const auto there = find(bare + variables{{"MASTER_ADDR", "n1"}});
  EXPECT_EQ(there->local_rank, 0);
  EXPECT_EQ(there->local_size, 1);
}

TEST(launch, own_variables_set_everything) {
  const auto info = find(own);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->rank, 1);
  EXPECT_EQ(info->size, 4);
  EXPECT_EQ(info->local_rank, 1);
  EXPECT_EQ(info->local_size, 2);
  EXPECT_EQ(info->address, "10.0.0.1");
  EXPECT_EQ(info->port, 29500);
  EXPECT_EQ(info->job, "j");
  EXPECT_EQ(find(own + variables{{"TANDEM_RENDEZVOUS", "[::1]:7"}})->address, "::1");
}

TEST(launch, complete_torchrun_takes_precedence) {
  const auto info = find(torchrun + own + open_mpi + mpich + mvapich + slurm);
  EXPECT_EQ(info->launcher, "torchrun");
  EXPECT_EQ(info->rank, 3);
  EXPECT_EQ(info->address, "n1");
}

/// `tandem run` sets both, so that any program finds its rank.
TEST(launch, tandem_run_is_named_where_both_sets_agree) {
  const variables bare{
      {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.2"}, {"MASTER_PORT", "7"}};
  const auto info = find(bare + own);
  EXPECT_EQ(info->launcher, "tandem run");
  EXPECT_EQ(info->address, "10.0.0.2") << "a complete set of torchrun's wins";
  EXPECT_EQ(info->port, 7);
  EXPECT_EQ(info->job, "j");
  EXPECT_EQ(find(bare)->launcher, "torchrun");
  EXPECT_EQ(find(bare + own + variables{{"TANDEM_RANK", "2"}})->launcher, "torchrun");
  EXPECT_EQ(find(bare + own + variables{{"TANDEM_SIZE", "5"}})->launcher, "torchrun");
  EXPECT_EQ(find(bare + own + variables{{"TANDEM_RENDEZVOUS", ""}})->launcher, "torchrun");
  EXPECT_EQ(find(bare + own + variables{{"TORCHELASTIC_RUN_ID", "x"}})->launcher, "torchrun");
}

TEST(launch, incomplete_torchrun_yields_to_complete_launcher) {
  for (const char* missing : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    variables incomplete = torchrun;
    incomplete.erase(missing);
    EXPECT_EQ(find(incomplete + own)->launcher, "tandem") << missing;
    EXPECT_EQ(find(incomplete + slurm)->launcher, "Slurm") << missing;
  }
}

TEST(launch, precedence_of_other_launchers) {
  EXPECT_EQ(find(own + open_mpi + mpich + slurm)->launcher, "tandem");
  EXPECT_EQ(find(open_mpi + mpich + mvapich + slurm)->launcher, "Open MPI");
  EXPECT_EQ(find(mpich + mvapich + slurm + rendezvous)->launcher, "MPICH");
  EXPECT_EQ(find(mvapich + slurm + rendezvous)->launcher, "MVAPICH2");
}

TEST(launch, open_mpi_on_one_host_uses_loopback_and_job_port) {
  const auto info = find(open_mpi);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->rank, 1);
  EXPECT_EQ(info->size, 2);
  EXPECT_EQ(info->local_rank, 1);
  EXPECT_EQ(info->local_size, 2);
  EXPECT_EQ(info->address, "127.0.0.1");
  EXPECT_GE(info->port, 15000);
  EXPECT_LT(info->port, 32000);
  EXPECT_EQ(info->job, "1884815361");
  EXPECT_EQ(find(open_mpi + variables{{"OMPI_COMM_WORLD_RANK", "0"}})->port, info->port);
  EXPECT_NE(find(open_mpi + variables{{"PMIX_NAMESPACE", "1884815362"}})->port, info->port);
}

TEST(launch, mpi_uses_given_address) {
  for (const variables& mpi : {open_mpi, mpich, mvapich}) {
    EXPECT_EQ(find(mpi + rendezvous)->address, "host");
    EXPECT_EQ(find(mpi + rendezvous)->port, 1234);
    const auto master = find(mpi + variables{{"MASTER_ADDR", "m"}, {"MASTER_PORT", "9"}});
    EXPECT_EQ(master->address, "m");
    EXPECT_EQ(master->port, 9);
  }
}

TEST(launch, slurm_step_sets_everything) {
  const auto info = find(slurm);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->rank, 5);
  EXPECT_EQ(info->size, 7);
  EXPECT_EQ(info->local_rank, 1);
  EXPECT_EQ(info->local_size, 2);
  EXPECT_EQ(info->address, "n08");
  EXPECT_EQ(info->port, 15000 + 123456 % 20000);
  EXPECT_EQ(info->job, "123456.4");
  EXPECT_EQ(find(slurm + variables{{"SLURM_NODEID", "2"}})->local_size, 3);
  EXPECT_EQ(find(slurm + variables{{"SLURM_RESTART_COUNT", "1"}})->job, "123456.4.r1");
  EXPECT_EQ(find(slurm + rendezvous)->address, "host");
}

TEST(launch, slurm_on_one_node_uses_loopback) {
  const auto info =
      find(slurm + variables{{"SLURM_STEP_TASKS_PER_NODE", "7"}, {"SLURM_NODEID", "0"}});
  EXPECT_EQ(info->address, "127.0.0.1");
  EXPECT_EQ(info->local_size, 7);
}

TEST(launch, batch_shell_without_srun_is_no_launch) {
  EXPECT_FALSE(find({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "n1"}}));
  // The batch shell of sbatch looks like task 0 but belongs to no step.
  EXPECT_FALSE(find({{"SLURM_JOB_ID", "1"},
                     {"SLURM_NTASKS", "4"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_JOB_NODELIST", "n1"}}));
}

TEST(launch, pmi_from_srun_is_read_as_slurm) {
  const variables both = slurm + variables{{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}};
  EXPECT_EQ(find(both)->launcher, "Slurm");
  EXPECT_EQ(find(both + variables{{"PMI_RANK", "4"}} + rendezvous)->launcher, "MPICH");
}

TEST(launch, first_host_of_a_list) {
  const std::map<std::string, std::string> cases{{"n1", "n1"},
                                                 {"n1,n2", "n1"},
                                                 {"n[1-3]", "n1"},
                                                 {"n[01-03,7],m5", "n01"},
                                                 {"n[7,01-03]", "n7"},
                                                 {"n[007]", "n007"},
                                                 {"rack[1-2]n[04-09]-ib,x", "rack1n04-ib"},
                                                 {"a-b-[10-12].site.org", "a-b-10.site.org"}};
  for (const auto& [list, host] : cases) {
    EXPECT_EQ(find(slurm + variables{{"SLURM_STEP_NODELIST", list}})->address, host) << list;
  }
}

struct bad_case {
  const char* what;
  variables set;
  const char* names[2];  ///< both must be in the text
};

TEST(launch, bracketed_addresses_and_loopback_spellings) {
  const variables bare{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "7"}};
  for (const auto& [text, address] : std::map<std::string, std::string>{
           {"[::1]", "::1"}, {" ::1 ", "::1"}, {"LocalHost.", "LocalHost."}}) {
    const auto info = find(bare + variables{{"MASTER_ADDR", text}});
    EXPECT_EQ(info->address, address);
    EXPECT_EQ(info->local_size, 4) << text;  // all ranks use loopback
    EXPECT_FALSE(info->local_size_known);
  }
  EXPECT_TRUE(find(torchrun)->local_size_known);
  EXPECT_TRUE(find(slurm)->local_size_known);
}

TEST(launch, invalid_variables_are_named) {
  const std::vector<bad_case> cases{
      {"rank beyond size", torchrun + variables{{"RANK", "8"}}, {"RANK=8", "WORLD_SIZE=8"}},
      {"negative rank", torchrun + variables{{"RANK", "-1"}}, {"RANK=-1", "0 to"}},
      {"no number", torchrun + variables{{"RANK", "x1"}}, {"RANK=x1", "whole number"}},
      {"number and more", torchrun + variables{{"WORLD_SIZE", "8 "}}, {"WORLD_SIZE=8 ", "whole"}},
      {"too large",
       torchrun + variables{{"RANK", "99999999999999999999"}},
       {"RANK=9999", "out of range"}},
      {"size 0", torchrun + variables{{"WORLD_SIZE", "0"}}, {"WORLD_SIZE=0", "1 to"}},
      {"port 0", torchrun + variables{{"MASTER_PORT", "0"}}, {"MASTER_PORT=0", "1 to 65535"}},
      {"port", torchrun + variables{{"MASTER_PORT", "65536"}}, {"MASTER_PORT=65536", "65535"}},
      {"local", torchrun + variables{{"LOCAL_RANK", "2"}}, {"LOCAL_RANK=2", "2"}},
      {"local size", torchrun + variables{{"LOCAL_WORLD_SIZE", "9"}}, {"LOCAL_WORLD_SIZE=9", "8"}},
      {"wins though wrong", torchrun + own + variables{{"RANK", "9"}}, {"RANK=9", "WORLD_SIZE"}},
      {"rank alone", {{"RANK", "0"}}, {"RANK=0", "WORLD_SIZE"}},
      {"size alone", {{"WORLD_SIZE", "2"}}, {"WORLD_SIZE=2", "RANK is not"}},
      {"no address", {{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {"RANK=0", "MASTER_ADDR"}},
      {"port in the address",
       torchrun + variables{{"MASTER_ADDR", "n1:7"}},
       {"MASTER_ADDR=n1:7", "MASTER_PORT"}},
      {"URL",
       mpich + variables{{"MASTER_ADDR", "tcp://n1"}, {"MASTER_PORT", "7"}},
       {"MASTER_ADDR=tcp://n1", "URL"}},
      {"name in brackets",
       own + variables{{"TANDEM_RENDEZVOUS", "[n1]:7"}},
       {"TANDEM_RENDEZVOUS=[n1]", "IPv6"}},
      {"own size alone", {{"TANDEM_SIZE", "2"}}, {"TANDEM_SIZE=2", "TANDEM_RANK"}},
      {"own, no address",
       {{"TANDEM_RANK", "0"}, {"TANDEM_SIZE", "2"}},
       {"TANDEM_RANK=0", "TANDEM_RENDEZVOUS"}},
      {"mpi rank alone", {{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_RANK=0", "_SIZE"}},
      {"no port", own + variables{{"TANDEM_RENDEZVOUS", "host"}}, {"TANDEM_RENDEZVOUS=host", ":"}},
      {"no host", own + variables{{"TANDEM_RENDEZVOUS", ":1"}}, {"TANDEM_RENDEZVOUS=:1", "host"}},
      {"bare v6", own + variables{{"TANDEM_RENDEZVOUS", "::1:80"}}, {"::1:80", "[address]"}},
      {"rendezvous port 0",
       own + variables{{"TANDEM_RENDEZVOUS", "h:0"}},
       {"TANDEM_RENDEZVOUS", "0"}},
      {"several hosts, no address",
       open_mpi +
           variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}},
       {"Open MPI", "mpirun -x TANDEM_RENDEZVOUS=host:port"}},
      {"jobs cannot be distinguished", mpich, {"MPICH", "-genv TANDEM_RENDEZVOUS host:port"}},
      {"task counts",
       slurm + variables{{"SLURM_STEP_TASKS_PER_NODE", "2(y)"}},
       {"TASKS_PER_NODE", "2(y)"}},
      {"task counts end",
       slurm + variables{{"SLURM_NODEID", "3"}},
       {"TASKS_PER_NODE", "SLURM_NODEID"}},
      {"local id", slurm + variables{{"SLURM_LOCALID", "2"}}, {"SLURM_LOCALID=2", "srun"}},
      {"open bracket",
       slurm + variables{{"SLURM_STEP_NODELIST", "n[1-2"}},
       {"NODELIST=n[1-2", "list"}},
      {"empty bracket",
       slurm + variables{{"SLURM_STEP_NODELIST", "n[]"}},
       {"NODELIST=n[]", "list"}},
      {"stray bracket",
       slurm + variables{{"SLURM_STEP_NODELIST", "n1]"}},
       {"NODELIST=n1]", "list"}},
      {"no host", slurm + variables{{"SLURM_STEP_NODELIST", ",n1"}}, {"NODELIST=,n1", "list"}},
      {"no job", slurm + variables{{"SLURM_JOB_ID", ""}}, {"SLURM_JOB_ID", "TANDEM_RENDEZVOUS"}},
  };
  for (const bad_case& each : cases) {
    try {
      find(each.set);
      ADD_FAILURE() << each.what << ": not refused";
    } catch (const tandem::error& e) {
      EXPECT_EQ(e.code(), tandem::errc::bad_input) << each.what;
      EXPECT_FALSE(e.context().advice.empty()) << each.what;
      const std::string text = e.what();
      EXPECT_EQ(text.find('\n'), std::string::npos);
      for (const char* name : each.names) {
        EXPECT_NE(text.find(name), std::string::npos) << each.what << ": " << text;
      }
    }
  }
}

TEST(launch, reads_process_environment) {
  {
    const tandem::test::environment_variable set("TANDEM_LAUNCH_TEST", "value");
    EXPECT_EQ(tandem::process_environment()("TANDEM_LAUNCH_TEST"), "value");
  }
  EXPECT_FALSE(tandem::process_environment()("TANDEM_LAUNCH_TEST"));
}

}  // namespace
