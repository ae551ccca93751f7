#include <gtest/gtest.h>

#include <tandem/error.hpp>

#include "cli/command_line.hpp"
#include "run/run.hpp"
#include "support/environment_variable.hpp"

namespace tandem::cli {
namespace {

using words = std::vector<std::string>;

/// A subcommand with one option of each kind.
struct sample {
  std::string op = "", name = "x", channel = "tcp";
  int ranks = 2;
  double rate = 0.5;
  std::size_t length = 4096;
  std::vector<std::size_t> lengths{8, 65536};
  bool json = false;
  settings engine;
  command_line line{{.command = "tandem sample",
                     .arguments = "OP [options]",
                     .summary = "A sample.",
                     .examples = "  tandem sample a\n"}};

  sample() {
    line.positional("OP", op, "what to do");
    line.option("ranks,n", ranks, 1, 8, "how many");
    line.option("rate", rate, 0, 1, "how fast");
    line.option("name", name, "how it is called");
    line.choice("channel", channel, {"local", "tcp"}, "over what");
    line.bytes("length", length, "how long");
    line.bytes_list("lengths", lengths, "which lengths");
    line.flag("json", json, "for programs");
    line.engine_options(engine);
  }
};

std::string error_text(const words& args) {
  sample s;
  try {
    s.line.parse(args);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no error";
}

TEST(CommandLine, KeepsDefaultsAndReadsEachKind) {
  sample s;
  EXPECT_TRUE(s.line.parse(words{"ping"}));
  EXPECT_EQ(s.op, "ping");
  EXPECT_EQ(s.ranks, 2);
  EXPECT_FALSE(s.line.given("ranks"));

  sample t;
  EXPECT_TRUE(t.line.parse(words{"-n", "4", "--rate=0.25", "ping", "--name", "y", "--channel",
                                 "local", "--length", "1M", "--lengths", "1,2K", "--json"}));
  EXPECT_EQ(t.op, "ping");
  EXPECT_EQ(t.ranks, 4);
  EXPECT_EQ(t.rate, 0.25);
  EXPECT_EQ(t.name, "y");
  EXPECT_EQ(t.channel, "local");
  EXPECT_EQ(t.length, 1u << 20);
  EXPECT_EQ(t.lengths, (std::vector<std::size_t>{1, 2048}));
  EXPECT_TRUE(t.json);
  EXPECT_TRUE(t.line.given("ranks"));
}

TEST(CommandLine, LastOccurrenceWins) {
  sample s;
  s.line.parse(words{"ping", "--ranks", "3", "--ranks", "5"});
  EXPECT_EQ(s.ranks, 5);
}

TEST(CommandLine, EngineOptionsComeFromEnvironmentThenCommandLine) {
  sample s;
  {
    const test::environment_variable spin("TANDEM_SPIN_US", "3");
    const test::environment_variable flows("TANDEM_MAX_FLOWS", "11");
    s.line.parse(words{"ping", "--spin-us", "4"});
  }
  EXPECT_EQ(s.engine.spin.count(), 4);
  EXPECT_EQ(s.engine.max_flows, 11u);
  const auto inherited = s.line.engine_environment();
  ASSERT_EQ(inherited.size(), 1u);
  EXPECT_EQ(inherited[0], std::make_pair(std::string("TANDEM_SPIN_US"), std::string("4")));
}

TEST(CommandLine, ErrorNamesOptionReasonAndNearest) {
  EXPECT_EQ(error_text({"ping", "--rnks", "3"}), "--rnks: no such option; did you mean --ranks?");
  EXPECT_EQ(error_text({"ping", "--eager-bites=1"}),
            "--eager-bites: no such option; did you mean --eager-bytes?");
  EXPECT_EQ(error_text({"ping", "-lengths"}), "-lengths: no such option; did you mean --lengths?");
  EXPECT_EQ(error_text({"ping", "--xyzzyx"}),
            "--xyzzyx: no such option; tandem sample --help lists them");
  EXPECT_EQ(error_text({"ping", "--ranks", "9"}), "--ranks=9: outside 1 to 8");
  EXPECT_EQ(error_text({"ping", "--ranks", "two"}), "--ranks=two: not a whole number");
  EXPECT_EQ(error_text({"ping", "--ranks", "2x"}), "--ranks=2x: not a whole number");
  EXPECT_EQ(error_text({"ping", "--rate", "nan"}), "--rate=nan: outside 0 to 1");
  EXPECT_EQ(error_text({"ping", "--ranks"}), "--ranks: its value is missing");
  EXPECT_EQ(error_text({"ping", "--ranks", "--json"}), "--ranks: its value is missing");
  EXPECT_EQ(error_text({"ping", "--json=1"}), "--json: takes no value");
  EXPECT_EQ(error_text({"ping", "--channel", "tpc"}),
            "--channel=tpc: not one of local, tcp; did you mean tcp?");
  EXPECT_NE(error_text({"ping", "--lengths", "8,,9"}).find("--lengths=: not a number of bytes"),
            std::string::npos);
  EXPECT_NE(error_text({}).find("OP is missing: what to do"), std::string::npos);
  EXPECT_NE(error_text({"ping", "pong"}).find("pong: unexpected argument"), std::string::npos);
  EXPECT_NE(error_text({"ping", "--eager-bytes", "2M"}).find("is more than chunk-bytes"),
            std::string::npos);
}

TEST(CommandLine, HelpShowsEveryOptionWithItsDefaultAndTheExamples) {
  sample s;
  ::testing::internal::CaptureStdout();
  const bool go_on = s.line.parse(words{"--help", "--no-such-option"});
  std::fflush(stdout);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_FALSE(go_on);
  for (const char* const part :
       {"usage: tandem sample OP [options]", "-n N, --ranks N", "how many (default 2)",
        "--channel local|tcp", "(default 8,64K)", "--eager-bytes", "tandem sample a\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

/// The launcher's command line: its own options end where the command begins.
words command_of(const words& args, int& ranks) {
  words command;
  command_line line({.command = "tandem launch", .arguments = "", .summary = "", .examples = ""});
  line.rest("COMMAND", command, "what to start");
  line.option("ranks,n", ranks, 1, 8, "how many");
  line.parse(args);
  return command;
}

TEST(CommandLine, CommandKeepsItsOwnOptions) {
  int ranks = 0;
  EXPECT_EQ(command_of({"-n", "2", "ls", "-n", "7"}, ranks), (words{"ls", "-n", "7"}));
  EXPECT_EQ(ranks, 2);
  EXPECT_EQ(command_of({"--ranks=3", "--", "--odd", "--help"}, ranks), (words{"--odd", "--help"}));
  EXPECT_EQ(ranks, 3);
  EXPECT_EQ(command_of({"-n4", "ls", "--", "x"}, ranks), (words{"ls", "--", "x"}));
  EXPECT_EQ(ranks, 4);
  EXPECT_THROW(command_of({"-n", "2"}, ranks), error);
  EXPECT_THROW(command_of({"-n", "2", "--"}, ranks), error);
}

TEST(RunCommand, RefusesInvalidNumberOfRanks) {
  for (const words& args : {words{"--", "true"}, words{"-n", "0", "true"},
                            words{"-n", "99999", "true"}, words{"-n", "2"}}) {
    try {
      launcher::run_main(args);
      ADD_FAILURE() << "accepted";
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::bad_option);
    }
  }
}

}  // namespace
}  // namespace tandem::cli
