// What `tandem run` makes of the output and the exits of its ranks, without processes.
#include <gtest/gtest.h>

#include <string>

#include "run/output.hpp"
#include "run/process.hpp"

namespace tandem::launcher {
namespace {

TEST(LinePrefixer, SplitsOverlongLines) {
  line_prefixer prefixer("> ");
  const std::string long_line(line_prefixer::max_bytes + 5, 'x');
  EXPECT_EQ(prefixer.feed(long_line), "> " + long_line.substr(5) + "\n");
  EXPECT_EQ(prefixer.feed("\n\ny"), "> xxxxx\n> \n");
  EXPECT_EQ(prefixer.finish(), "> y\n");
  EXPECT_EQ(prefixer.finish(), "");
}

TEST(LastWords, AreLastThreeLines) {
  last_lines words;
  EXPECT_EQ(words.text(), "");
  words.feed("one\ntwo\n\n  \nthree\nbar 10%\rbar 20%\rfo");
  words.feed("ur");
  EXPECT_EQ(words.text(), "bar 10% / bar 20% / four");
}

TEST(FirstFailure, PrefersKilledRankOverRanksThatLostIt) {
  const int exited_well = 0, exited_1 = 1 << 8, killed = SIGKILL;
  const std::vector<rank_exit> ends{{0, exited_well}, {1, exited_1}, {2, killed}, {3, exited_1}};
  ASSERT_TRUE(first_failure(ends));
  EXPECT_EQ(first_failure(ends)->rank, 2);
  EXPECT_EQ(exit_status(killed), 137);
  EXPECT_FALSE(first_failure(std::vector<rank_exit>{{0, exited_well}}));
}

}  // namespace
}  // namespace tandem::launcher
