// `tandem train` end to end: processes that train, give bitwise equal results, and end when one of
// them is killed. TANDEM_COMMAND is the path of the program.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "processes/child.hpp"
#include "support/attempts.hpp"
#include "support/reserved_port.hpp"
#include "support/sanitized.hpp"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;

constexpr seconds timeout{90};  // for a run of a second on an idle machine

class train : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tandem-train-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 400; ++i)
      text << "line " << i << " of a text that repeats itself, " << i * i << "\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> command(const std::string& options) const {
    std::vector<std::string> words{TANDEM_COMMAND, "train",
                                   "--report",     (folder_ / "report.html").string(),
                                   "--json",       (folder_ / "run.json").string()};
    if (options.find("--data") == std::string::npos) {
      words.insert(words.end(), {"--data", (folder_ / "text").string()});
    }
    std::istringstream more(options);
    words.insert(words.end(), std::istream_iterator<std::string>(more), {});
    return words;
  }

  /// Runs to completion; the JSON record, or empty on failure.
  std::string record_of(const std::string& options) {
    fs::remove(folder_ / "run.json");
    child run(command(options));
    EXPECT_TRUE(run.wait_for_end(timeout)) << options << "\n" << run.output();
    EXPECT_EQ(run.status(), 0) << options << "\n" << run.output();
    EXPECT_EQ(run.family(), std::vector<pid_t>{}) << options;
    std::ifstream in(folder_ / "run.json");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// The text between a member's name and the end of its line.
  static std::string member(const std::string& record, const std::string& name) {
    const std::size_t at = record.find("\"" + name + "\": ");
    if (at == std::string::npos) return "no member " + name;
    const std::size_t begin = at + name.size() + 4;
    return record.substr(begin, record.find_first_of("\n", begin) - begin);
  }

  std::string bits_of(const std::string& options) {
    return member(record_of(options), "loss_bits");
  }

  /// Expects one line of error, this exit status, and no remaining process.
  void expect_refused(const std::string& options, int status, const std::string& expected) {
    child run(command(options));
    ASSERT_TRUE(run.wait_for_end(timeout)) << options << "\n" << run.output();
    EXPECT_EQ(run.status(), status) << options << "\n" << run.output();
    EXPECT_NE(run.output().find(expected), std::string::npos) << options << "\n" << run.output();
    EXPECT_EQ(std::count(run.output().begin(), run.output().end(), '\n'), 1) << run.output();
    EXPECT_FALSE(fs::exists(folder_ / "report.html"));
  }

  fs::path folder_;
};

class bits : public train, public testing::WithParamInterface<const char*> {};

TEST_P(bits, match_in_one_process_and_any_pipeline) {
  const std::string common =
      std::string("--steps 5 --batch 8 --micro-batches 4 --no-reference --model ") + GetParam();
  const std::string alone = bits_of(common + " --ranks 1");
  ASSERT_EQ(std::count(alone.begin(), alone.end(), 'p'), 5) << alone;
  EXPECT_EQ(bits_of(common + " --ranks 1"), alone) << "a second run";
  EXPECT_EQ(bits_of(common + " --ranks 2"), alone);
  EXPECT_EQ(bits_of(common + " --ranks 2 --split 1,3 --schedule gpipe"), alone);
  EXPECT_EQ(bits_of(common + " --ranks 4 --stages 4"), alone);
  EXPECT_EQ(bits_of(common + " --ranks 4 --stages 4 --schedule gpipe"), alone);
  EXPECT_NE(bits_of(common + " --ranks 2 --seed 2"), alone) << "the comparison can fail";
}

TEST_P(bits, match_with_every_schedule) {
  const std::string common =
      std::string("--steps 4 --batch 10 --micro-batches 5 --no-reference --model ") + GetParam();
  const std::string alone = bits_of(common + " --ranks 1");
  ASSERT_EQ(std::count(alone.begin(), alone.end(), 'p'), 4) << alone;
  for (const char* schedule :
       {"gpipe", "one_f_one_b", "interleaved", "zb_h1", "zb_v", "v_uneven"}) {
    const std::string with = common + " --schedule " + schedule;
    const std::string record = record_of(with + " --ranks 2");
    EXPECT_EQ(member(record, "loss_bits"), alone) << schedule;
    EXPECT_EQ(member(record, "schedule"), std::string("\"") + schedule + "\",");
    EXPECT_GT(std::atof(member(record, "bubble_predicted").c_str()), 0) << schedule;
    EXPECT_GT(std::atof(member(record, "bubble_measured").c_str()), 0) << schedule;
    EXPECT_EQ(bits_of(with + " --ranks 1"), alone) << schedule;
  }
  EXPECT_EQ(bits_of(common + " --ranks 2 --schedule interleaved --chunks 1"), alone);
  EXPECT_EQ(bits_of(common + " --ranks 1 --schedule interleaved --chunks 4"), alone);
  EXPECT_EQ(bits_of(common + " --ranks 4 --stages 4 --schedule zb_h1"), alone);
}

TEST_P(bits, with_replicas_runs_repeat_and_agree_with_one_process) {
  const std::string options =
      std::string("--steps 20 --batch 8 --micro-batches 2 --model ") + GetParam();
  const std::string first = record_of(options);
  EXPECT_LT(std::atof(member(first, "largest_relative_difference").c_str()), 1e-5);
  EXPECT_EQ(member(record_of(options + " --no-reference"), "loss_bits"),
            member(first, "loss_bits"));
  for (const char* schedule : {"gpipe", "zb_v"}) {
    const std::string other = record_of(options + " --no-reference --schedule " + schedule);
    EXPECT_EQ(member(other, "loss_bits"), member(first, "loss_bits")) << schedule;
  }
}

INSTANTIATE_TEST_SUITE_P(of, bits, testing::Values("llama-tiny", "qwen2-tiny"),
                         [](const auto& one) { return std::string(one.param, 5); });

TEST_F(train, uneven_stages_give_same_bits) {
  // A model deep enough for four stages of two chunks.
  const std::string common =
      "--steps 2 --batch 4 --micro-batches 4 --sequence 16 --no-reference --model llama-medium";
  const std::string alone = bits_of(common + " --ranks 1");
  EXPECT_EQ(bits_of(common + " --ranks 2 --split 1,3,2,2 --schedule v_uneven"), alone);
  EXPECT_EQ(bits_of(common + " --ranks 4 --stages 4 --schedule zb_v"), alone);
}

TEST_F(train, loss_decreases_and_report_is_written) {
  child run(command("--model llama-tiny --steps 60"));
  ASSERT_TRUE(run.wait_for_end(timeout)) << run.output();
  ASSERT_EQ(run.status(), 0) << run.output();
  std::ifstream in(folder_ / "run.json");
  const std::string record(std::istreambuf_iterator<char>(in), {});
  EXPECT_GT(std::atof(member(record, "loss").c_str() + 1), 5.0);
  EXPECT_LT(std::atof(member(record, "final_loss").c_str()), 4.0);
  EXPECT_NE(run.output().find("4 ranks  step 60/60"), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("1 process  step 60/60"), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("no GPU is used"), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("final loss "), std::string::npos) << run.output();
  EXPECT_NE(run.output().find(" relative"), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("report: " + (folder_ / "report.html").string()), std::string::npos);
  std::ifstream page(folder_ / "report.html");
  const std::string html(std::istreambuf_iterator<char>(page), {});
  EXPECT_NE(html.find("</html>"), std::string::npos);
  for (const char* what :
       {"nvidia: forward", "nvidia: all-reduce", "amd: receive wait", "amd: update"}) {
    EXPECT_NE(html.find(what), std::string::npos) << "the timeline lacks " << what;
  }
}

TEST_F(train, rails_give_same_bits_and_appear_in_all_outputs) {
  const std::string options = "--model llama-tiny --steps 20 --batch 8 --micro-batches 2 ";
  std::vector<std::string> words{TANDEM_COMMAND, "run", "-n", "4", "--"};
  const std::vector<std::string> ranks = command(options + "--rails 127.0.0.1 --rail-streams 2");
  words.insert(words.end(), ranks.begin(), ranks.end());
  child run(words);
  ASSERT_TRUE(run.wait_for_end(timeout)) << run.output();
  ASSERT_EQ(run.status(), 0) << run.output();
  EXPECT_NE(run.output().find(" lo up "), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("rails between islands carried "), std::string::npos);
  std::ifstream in(folder_ / "run.json");
  const std::string record(std::istreambuf_iterator<char>(in), {});
  const std::string rails = member(record, "rails");
  // Every replica connects the islands, each pair of ranks with both streams.
  for (const char* pair : {"[0, 2]", "[1, 3]"}) {
    for (const char* lane : {"0", "1"}) {
      const std::string which =
          std::string("{\"ranks\": ") + pair +
          R"(, "islands": ["nvidia", "amd"], "nics": ["lo", "lo"], "lane": )" + lane + ",";
      const std::size_t at = rails.find(which);
      ASSERT_NE(at, std::string::npos) << which << " is not in " << rails;
      EXPECT_NE(rails.substr(at, 260).find(R"("state": "up", "epoch": 1, "times_lost": 0)"),
                std::string::npos)
          << rails.substr(at, 260);
    }
    const std::size_t at = rails.find(pair);
    const std::size_t sent = rails.find("\"bytes_sent\": ", at);
    const std::size_t received = rails.find("\"bytes_received\": ", at);
    EXPECT_GT(std::atol(rails.c_str() + sent + 14), 100'000) << rails;
    EXPECT_GT(std::atol(rails.c_str() + received + 18), 100'000) << rails;
  }
  std::ifstream page(folder_ / "report.html");
  const std::string html(std::istreambuf_iterator<char>(page), {});
  EXPECT_NE(html.find("<h2>Rails</h2>"), std::string::npos);
  EXPECT_NE(html.find("<td>nvidia lo</td><td>amd lo</td>"), std::string::npos);
  EXPECT_EQ(html.find("<rect class='lost'"), std::string::npos);
  EXPECT_EQ(member(record_of(options), "loss_bits"), member(record, "loss_bits"));
  std::ifstream without(folder_ / "run.json");
  EXPECT_EQ(member(std::string(std::istreambuf_iterator<char>(without), {}), "rails"),
            "no member rails");
}

TEST_F(train, separate_channels_give_same_bits) {
  const std::string options =
      "--model llama-tiny --steps 10 --batch 8 --micro-batches 2 "
      "--no-reference --ranks 4 --channel ";
  const std::string mixed = record_of(options + "mixed");
  EXPECT_EQ(member(mixed, "carried_inside_islands"), R"("shm",)");
  EXPECT_EQ(member(mixed, "carried_between_islands"), R"("tcp",)");
  const std::string tcp = record_of(options + "tcp");
  EXPECT_EQ(member(tcp, "carried_inside_islands"), R"("tcp",)");
  EXPECT_EQ(member(tcp, "loss_bits"), member(mixed, "loss_bits"));
  EXPECT_EQ(bits_of(options + "shm"), member(mixed, "loss_bits"));
  const std::string rails = record_of(options + "mixed --rails 127.0.0.1");
  EXPECT_EQ(member(rails, "carried_between_islands"), R"("rails",)");
  EXPECT_EQ(member(rails, "loss_bits"), member(mixed, "loss_bits"));
}

TEST_F(train, runs_with_a_profile_are_reproducible) {
  const std::string profile = (folder_ / "profile").string();
  std::ofstream(profile)
      << "tandem profile 1: edited\nwithin.channel tcp\nwithin.latency_ns 5000\ncores 2\n";
  const std::string options =
      "--model llama-tiny --steps 4 --batch 8 --micro-batches 2 --ranks 4 --profile " + profile;
  const std::string bits = bits_of(options);
  EXPECT_EQ(bits.find("no member"), std::string::npos) << bits;
  EXPECT_EQ(bits_of(options), bits);
  std::ofstream(profile) << "tandem profile 1: edited\nwithin.latency_us 5\n";
  child run(command(options));
  ASSERT_TRUE(run.wait_for_end(timeout)) << run.output();
  EXPECT_NE(run.status(), 0);
  EXPECT_NE(run.output().find("did you mean within.latency_ns?"), std::string::npos)
      << run.output();
}

TEST_F(train, automatically_selected_rails_are_used) {
  const std::string options = "--model llama-tiny --steps 5 --no-reference --ranks 2 ";
  const std::string record = record_of(options + "--rails auto");
  EXPECT_NE(member(record, "rails").find(R"("lane": 0, )"), std::string::npos) << record;
  EXPECT_EQ(member(record_of(options), "rails"), "no member rails");
}

/// Rank to kill, the output to wait for before, and the transport.
using killing = std::tuple<int, const char*, const char*>;
class killed : public train, public testing::WithParamInterface<killing> {
 protected:
  void lose(bool& is_in_time);
};

TEST_P(killed, rank_is_named_in_errors_of_all_others) {
  EXPECT_TRUE(succeeds_once([this] {
    bool is_in_time = false;
    lose(is_in_time);
    return is_in_time;
  }));
}

/// @param is_in_time  all have ended within the limit, and have said why if they were training
void killed::lose(bool& is_in_time) {
  constexpr seconds limit = unless_sanitized(seconds(2), seconds(20));
  const auto [rank, moment, channel] = GetParam();
  child run(
      command(std::string("--model llama-tiny --steps 1000000 --batch 16 --channel ") + channel));
  const pid_t victim = run.rank(rank, timeout);
  ASSERT_GT(victim, 0) << run.output();
  ASSERT_TRUE(run.wait_for_output(moment, timeout)) << run.output();
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  const auto killed_at = std::chrono::steady_clock::now();
  ASSERT_TRUE(run.wait_for_end(timeout)) << "still running: " << run.family().size() << "\n"
                                         << run.output();
  is_in_time = std::chrono::steady_clock::now() - killed_at < limit;
  EXPECT_EQ(run.status(), 128 + SIGKILL) << run.output();
  EXPECT_NE(run.output().find("rank " + std::to_string(rank)), std::string::npos) << run.output();
  if (std::string(moment).starts_with("step")) {
    const std::string gone = "rank " + std::to_string(rank) + " is gone";
    int survivors = 0;
    for (std::size_t at = 0; (at = run.output().find(gone, at)) != std::string::npos; ++at)
      ++survivors;
    is_in_time = is_in_time && survivors == 3;
    if (survivors != 3) std::cerr << run.output();
  }
  EXPECT_EQ(run.family(), std::vector<pid_t>{});
  EXPECT_FALSE(fs::exists(folder_ / "report.html"));
}

std::string name_of(const testing::TestParamInfo<killing>& one) {
  const std::string moment = std::get<1>(one.param);
  const std::string when = moment.empty() ? "start" : moment == "Tandem" ? "greeting" : "training";
  return when + "_rank_" + std::to_string(std::get<0>(one.param));
}
INSTANTIATE_TEST_SUITE_P(at, killed,
                         testing::Combine(testing::Range(0, 4),
                                          testing::Values("", "Tandem", "step 1/"),
                                          testing::Values("tcp")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(mixed, killed,
                         testing::Combine(testing::Values(0, 3), testing::Values("step 1/"),
                                          testing::Values("mixed")),
                         name_of);

TEST_F(train, terminated_launcher_leaves_no_rank) {
  child run(command("--model llama-tiny --steps 1000000"));
  ASSERT_TRUE(run.wait_for_output("step 1/", timeout)) << run.output();
  ASSERT_EQ(kill(run.id(), SIGTERM), 0);
  ASSERT_TRUE(run.wait_for_end(timeout)) << run.output();
  EXPECT_NE(run.status(), 0);
  EXPECT_EQ(run.family(), std::vector<pid_t>{});
}

TEST_F(train, bad_input_is_refused_before_a_rank_starts) {
  expect_refused("--data /nowhere/text", 1, "/nowhere/text: No such file or directory");
  std::ofstream(folder_ / "empty").close();
  expect_refused("--data " + (folder_ / "empty").string(), 1,
                 "the text is empty, so there is nothing to train on");
  std::ofstream(folder_ / "short") << "short";
  expect_refused("--data " + (folder_ / "short").string(), 1, "too few for one sequence");
  expect_refused("--stages 3", 2, "4 ranks do not divide into 3 stages; choose --stages 1, 2, 4");
  expect_refused("--split 1,2", 2, "--split 1,2 adds up to 3 layers");
  expect_refused("--schedule zb_v --chunks 3", 2, "--chunks 3: zb_v has 2 of each rank");
  expect_refused("--schedule zb_v --stages 4 --model llama-tiny", 2,
                 "4 stages of 2 chunks cannot share 4 layers");
  expect_refused("--batch 6", 2, "does not divide into 2 replicas x 4 micro-batches");
  expect_refused("--model lama-small", 2, "llama-small");
  expect_refused("--modle llama-small", 2, "--model");
  expect_refused("--report /nowhere/page.html", 1, "/nowhere/page.html: cannot be written");
  expect_refused("--ranks 3", 2, "3 ranks do not divide into two islands");
}

TEST_F(train, different_settings_are_named_with_ranks) {
  const reserved_port port;
  std::vector<std::unique_ptr<child>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string seed = rank == 0 ? " --seed 5" : " --seed 6";
    ranks.push_back(std::make_unique<child>(
        command("--model llama-tiny --steps 3" + seed),
        std::vector<std::string>{"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                                 "MASTER_ADDR=127.0.0.1",
                                 "MASTER_PORT=" + std::to_string(port.number())}));
  }
  for (const std::unique_ptr<child>& one : ranks) {
    ASSERT_TRUE(one->wait_for_end(timeout)) << one->output();
    EXPECT_EQ(one->status(), 1) << one->output();
    EXPECT_NE(one->output().find("--seed: rank 1 has 6, rank 0 has 5"), std::string::npos)
        << one->output();
  }
}

}  // namespace
}  // namespace tandem::test
