// `tandem run` with real processes: ranks, their output and their exit.

#include "run/run.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>
#include <tandem/error.hpp>

#include "run/output.hpp"
#include "run/process.hpp"
#include "support/attempts.hpp"

namespace tandem::launcher {
namespace {

using namespace std::chrono_literals;
using lines = std::vector<std::string>;

constexpr int timeout_ms = 30'000;

/// Reads until `word` has arrived, or to the end if it is empty. False after the timeout.
bool read_until(int fd, const std::string& word, std::string& seen) {
  std::array<char, 4096> bytes;
  while (word.empty() || seen.find(word) == std::string::npos) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, timeout_ms) <= 0) return false;
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count <= 0) return word.empty();
    seen.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return true;
}

launch_plan shell(int ranks, const std::string& script) {
  launch_plan plan;
  plan.ranks = ranks;
  plan.command = {"/bin/sh", "-c", script};
  plan.name = "launcher";
  return plan;
}

struct outcome {
  int status = -1;
  std::string output, errors;
};

std::string content(std::FILE* file) {
  std::string text;
  std::array<char, 65536> bytes;
  std::rewind(file);
  while (const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), file)) {
    text.append(bytes.data(), count);
  }
  return text;
}

outcome launch(launch_plan plan) {
  using file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  const file output(std::tmpfile(), std::fclose), errors(std::tmpfile(), std::fclose);
  plan.output = ::fileno(output.get());
  plan.error_output = ::fileno(errors.get());
  outcome result;
  result.status = launch_local(plan);
  result.output = content(output.get());
  result.errors = content(errors.get());
  return result;
}

lines sorted_lines(const std::string& text) {
  lines all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  std::sort(all.begin(), all.end());
  return all;
}

/// A pipe whose write end every process of a job inherits: its read end reports when the last one
/// has exited.
class lifeline {
 public:
  lifeline() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    read_ = owned_fd(ends[0]);
    write_ = owned_fd(ends[1]);
  }
  bool ended() {
    write_ = owned_fd();
    std::string nothing;
    return read_until(read_.get(), "", nothing);
  }

 private:
  owned_fd read_, write_;
};

/// A launcher in its own process, for tests that send it signals.
class launcher_process {
 public:
  explicit launcher_process(launch_plan plan) {
    pipe_ends output = make_pipe();
    plan.output = output.write.get();
    plan.error_output = output.write.get();
    id_ = ::fork();
    if (id_ == 0) {
      // A background job of a shell starts with these ignored, and its children inherit that.
      for (const int number : {SIGINT, SIGQUIT, SIGHUP}) ::signal(number, SIG_DFL);
      ::_exit(launch_local(plan));
    }
    output_ = std::move(output.read);
  }
  ~launcher_process() {
    if (id_ > 0) wait();
  }
  pid_t id() const { return id_; }
  /// Reads until `word` has appeared in the output `times` times.
  bool wait_for_output(const std::string& word, int times) {
    for (int i = 0; i < times; ++i) {
      if (!read_until(output_.get(), word, text_)) return false;
      text_.erase(0, text_.find(word) + word.size());
    }
    return true;
  }
  /// Reads to the end of the output, which is true when no process of the job is left.
  bool wait_for_end() { return read_until(output_.get(), "", text_); }
  const std::string& text() const { return text_; }
  int wait() {
    int status = -1;
    ::waitpid(std::exchange(id_, -1), &status, 0);
    return status;
  }

 private:
  pid_t id_;
  owned_fd output_;
  std::string text_;
};

TEST(Run, SetsRankVariablesAndRendezvous) {
  launch_plan plan = shell(3,
                           "echo place $TANDEM_RANK$RANK$TANDEM_LOCAL_RANK$LOCAL_RANK "
                           "$TANDEM_SIZE$WORLD_SIZE$TANDEM_LOCAL_SIZE$LOCAL_WORLD_SIZE $EXTRA; "
                           "echo x $TANDEM_RENDEZVOUS $MASTER_ADDR:$MASTER_PORT $TANDEM_JOB");
  plan.environment = {{"EXTRA", "more"}};
  const outcome result = launch(plan);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  const lines all = sorted_lines(result.output);
  ASSERT_EQ(all.size(), 6u);
  std::set<std::string> rendezvous_addresses;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::string prefix = "[" + std::to_string(rank) + "] ";
    EXPECT_EQ(all[2 * rank],
              prefix + "place " + std::string(4, static_cast<char>('0' + rank)) + " 3333 more");
    rendezvous_addresses.insert(all[2 * rank + 1].substr(prefix.size()));
  }
  ASSERT_EQ(rendezvous_addresses.size(), 1u);
  std::istringstream words(*rendezvous_addresses.begin());
  std::string mark, own, torch, job;
  words >> mark >> own >> torch >> job;
  EXPECT_EQ(own, torch);
  EXPECT_EQ(own.substr(0, 10), "127.0.0.1:");
  EXPECT_EQ(job.size(), 16u);
}

TEST(Run, GeneratesSecretUnlessSet) {
  launch_plan plan = shell(2, "echo ${#TANDEM_SECRET} $TANDEM_SECRET");
  const lines generated = sorted_lines(launch(plan).output);
  ASSERT_EQ(generated.size(), 2u);
  EXPECT_EQ(generated[0].substr(4), generated[1].substr(4));
  EXPECT_EQ(generated[0].substr(0, 7), "[0] 64 ");  // 32 bytes
  const lines again = sorted_lines(launch(plan).output);
  EXPECT_NE(again[0], generated[0]);
  plan.environment = {{"TANDEM_SECRET_FILE", "none"}};
  EXPECT_EQ(sorted_lines(launch(plan).output)[0].substr(0, 7), "[0] 64 ");
  for (const char* const name : {"TANDEM_SECRET_FILE", "TANDEM_CERTIFICATE_FILE"}) {
    plan.environment = {{name, "mine"}};
    EXPECT_EQ(sorted_lines(launch(plan).output)[0], "[0] 0");
  }
  plan.environment = {{"TANDEM_SECRET", "mine"}};
  EXPECT_EQ(sorted_lines(launch(plan).output)[0], "[0] 4 mine");
}

TEST(Run, PrefixesLinesOfBothStreams) {
  const outcome result = launch(shell(1, "echo one; printf two; echo three >&2; printf four >&2"));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, "[0] one\n[0] two\n");
  EXPECT_EQ(result.errors, "[0] three\n[0] four\n");
}

TEST(Run, OutputWithoutPrefixIsUnchanged) {
  launch_plan plan = shell(1, "printf 'a\\nb'; printf c >&2");
  plan.prefix = false;
  const outcome result = launch(plan);
  EXPECT_EQ(result.output, "a\nb");
  EXPECT_EQ(result.errors, "c");
}

TEST(Run, ManyLinesStayIntactAndOrdered) {
  const outcome result = launch(shell(4, "seq 20000"));
  EXPECT_EQ(result.status, 0);
  std::array<int, 4> next{1, 1, 1, 1};
  std::istringstream stream(result.output);
  for (std::string line; std::getline(stream, line);) {
    ASSERT_GT(line.size(), 4u);
    const std::size_t rank = static_cast<std::size_t>(line[1] - '0');
    ASSERT_LT(rank, 4u) << line;
    ASSERT_EQ(line, "[" + std::to_string(rank) + "] " + std::to_string(next[rank])) << line;
    ++next[rank];
  }
  EXPECT_EQ(next, (std::array<int, 4>{20001, 20001, 20001, 20001}));
}

TEST(Run, ReportsFirstFailureWithStatusAndLastOutput) {
  launch_plan plan =
      shell(3,
            "if [ $RANK = 2 ]; then echo early >&2; echo 'cannot go on' >&2; exit 3; fi; "
            "sleep 0.3; echo ended by itself");
  plan.grace = 20s;
  const outcome result = launch(plan);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(sorted_lines(result.output), (lines{"[0] ended by itself", "[1] ended by itself"}));
  EXPECT_NE(result.errors.find("launcher: rank 2 failed first: exit status 3; last lines of its "
                               "standard error: early / cannot go on\n"),
            std::string::npos)
      << result.errors;
}

TEST(Run, EndsOtherRanksAfterGracePeriod) {
  launch_plan plan = shell(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; exec sleep 1000");
  plan.grace = 50ms;
  const outcome result = launch(plan);
  EXPECT_EQ(result.status, 128 + 9);
  EXPECT_EQ(result.errors, "launcher: rank 1 failed first: killed by signal 9 (Killed)\n");
}

TEST(Run, OthersGoOnWhileEnoughAreLeft) {
  launch_plan plan =
      shell(3, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 0.3; echo ended by itself");
  plan.grace = 50ms;
  plan.min_survivors = 2;
  const outcome result = launch(plan);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(sorted_lines(result.output), (lines{"[0] ended by itself", "[2] ended by itself"}));
  EXPECT_EQ(result.errors,
            "launcher: rank 1: killed by signal 9 (Killed); 2 ranks of 3 may go on\n");
}

TEST(Run, TheFailureThatLeavesTooFewEndsTheOthers) {
  launch_plan plan = shell(3,
                           "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 3; "
                           "if [ $RANK = 0 ]; then exit 5; fi; exec sleep 1000");
  plan.grace = 50ms;
  plan.min_survivors = 2;
  const outcome result = launch(plan);
  EXPECT_EQ(result.status, 5);
  EXPECT_NE(result.errors.find("launcher: rank 0 failed first: exit status 5\n"), std::string::npos)
      << result.errors;
}

TEST(Run, KilledRankIsBlamedOverRanksThatLostIt) {
  launch_plan plan = shell(2, "if [ $RANK = 1 ]; then exit 1; fi; sleep 0.05; kill -9 $$");
  plan.grace = 20s;
  outcome result;
  // It may be killed too late to be the cause.
  EXPECT_TRUE(test::succeeds_once([&] {
    result = launch(plan);
    return result.status == 128 + 9;
  })) << result.status;
  EXPECT_NE(result.errors.find("rank 0 failed first"), std::string::npos) << result.errors;
}

TEST(Run, KillsRanksIgnoringTermAndOrphans) {
  lifeline liveness;
  launch_plan plan = shell(2,
                           "trap '' TERM; sleep 1000 & if [ $RANK = 1 ]; then exit 7; fi; "
                           "while :; do sleep 1; done");
  plan.grace = 50ms;
  plan.kill_after = 100ms;
  const outcome result = launch(plan);
  EXPECT_EQ(result.status, 7);
  EXPECT_TRUE(liveness.ended()) << "a process of the job is still there";
}

TEST(Run, ForwardsSignals) {
  launcher_process launcher(
      shell(2, "trap 'echo got it; exit 0' USR1; echo ready; while :; do sleep 0.1; done"));
  ASSERT_TRUE(launcher.wait_for_output("ready", 2));
  ::kill(launcher.id(), SIGUSR1);
  EXPECT_TRUE(launcher.wait_for_output("got it", 2));
  EXPECT_TRUE(launcher.wait_for_end());
  const int status = launcher.wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Run, ExitStatusReflectsFatalSignal) {
  launcher_process launcher(shell(2, "echo ready; exec sleep 1000"));
  ASSERT_TRUE(launcher.wait_for_output("ready", 2));
  ::kill(launcher.id(), SIGTERM);
  EXPECT_TRUE(launcher.wait_for_end());
  EXPECT_NE(launcher.text().find("stopped by signal 15 (Terminated)"), std::string::npos);
  EXPECT_EQ(WEXITSTATUS(launcher.wait()), 128 + 15);
}

TEST(Run, SecondInterruptEndsRanksIgnoringFirst) {
  launch_plan plan =
      shell(1, "trap 'echo not now' INT; trap '' TERM; echo ready; while :; do sleep 0.1; done");
  plan.kill_after = 50ms;
  launcher_process launcher(plan);
  ASSERT_TRUE(launcher.wait_for_output("ready", 1));
  ::kill(launcher.id(), SIGINT);
  ASSERT_TRUE(launcher.wait_for_output("not now", 1));
  ::kill(launcher.id(), SIGINT);
  EXPECT_TRUE(launcher.wait_for_end());
  EXPECT_NE(launcher.text().find("rank 0 did not end in time and had to be killed"),
            std::string::npos)
      << launcher.text();
  EXPECT_EQ(WEXITSTATUS(launcher.wait()), 128 + 2);
}

TEST(Run, StopSignalIsEnforced) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    launch_plan plan = shell(2, "trap '' INT TERM HUP QUIT; echo ready; while :; do sleep 1; done");
    plan.grace = 50ms;
    plan.kill_after = 50ms;
    launcher_process launcher(plan);
    ASSERT_TRUE(launcher.wait_for_output("ready", 2));
    ::kill(launcher.id(), number);
    EXPECT_TRUE(launcher.wait_for_end());
    EXPECT_EQ(WEXITSTATUS(launcher.wait()), 128 + number);
  }
}

TEST(Run, ExitStatusReflectsSignalOnCleanExit) {
  launcher_process launcher(shell(2,
                                  "trap 'echo saved; exit 0' TERM; echo ready; "
                                  "while :; do sleep 0.05; done"));
  ASSERT_TRUE(launcher.wait_for_output("ready", 2));
  ::kill(launcher.id(), SIGTERM);
  EXPECT_TRUE(launcher.wait_for_output("saved", 2));
  EXPECT_EQ(WEXITSTATUS(launcher.wait()), 128 + SIGTERM);
}

TEST(Run, KilledLauncherLeavesNoProcess) {
  lifeline liveness;
  launcher_process launcher(
      shell(3, "trap '' HUP INT TERM PIPE; sleep 1000 & echo ready; while :; do sleep 1; done"));
  ASSERT_TRUE(launcher.wait_for_output("ready", 3));
  ::kill(launcher.id(), SIGKILL);
  EXPECT_TRUE(liveness.ended()) << "a process of the job is still there";
  EXPECT_TRUE(WIFSIGNALED(launcher.wait()));
}

TEST(Run, MissingCommandIsOneError) {
  launch_plan plan;
  plan.ranks = 2;
  plan.command = {"no-such-command-anywhere"};
  try {
    launch_local(plan);
    ADD_FAILURE() << "started";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), boost::system::errc::no_such_file_or_directory);
    EXPECT_NE(std::string(e.what()).find("cannot start no-such-command-anywhere"),
              std::string::npos);
  }
}

TEST(Run, SelfCommandIsThisProgram) {
  const lines command = self_command(lines{"train", "--steps", "3"});
  ASSERT_EQ(command.size(), 4u);
  EXPECT_EQ(::access(command[0].c_str(), X_OK), 0);
  EXPECT_EQ(command[3], "3");
}

}  // namespace
}  // namespace tandem::launcher
