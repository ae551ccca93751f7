// Division of ranks into groups, and the errors of invalid layouts.
#include <gtest/gtest.h>

#include <tandem/error.hpp>
#include <tandem/parallel.hpp>

namespace tandem {
namespace {

using groups = std::vector<std::vector<int>>;

TEST(ParallelLayout, VariesLastDimensionFastest) {
  const parallel_layout layout = parallel_layout::parse("pipeline=2,data=2,tensor=2");
  EXPECT_EQ(layout.ranks(), 8);
  EXPECT_EQ(layout.text(), "pipeline=2,data=2,tensor=2");
  ASSERT_EQ(layout.dimensions().size(), 3U);
  EXPECT_EQ(layout.groups(0).name, "pipeline");
  EXPECT_EQ(layout.groups(0).members, (groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(layout.groups(1).members, (groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(layout.groups(2).members, (groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST(ParallelLayout, AcceptsAnySizesAndNames) {
  const parallel_layout layout = parallel_layout::parse("my-stage_2=3,expert=1,data=5");
  EXPECT_EQ(layout.ranks(), 15);
  EXPECT_EQ(layout.groups(0).name, "my-stage_2");
  EXPECT_EQ(layout.groups(0).members,
            (groups{{0, 5, 10}, {1, 6, 11}, {2, 7, 12}, {3, 8, 13}, {4, 9, 14}}));
  EXPECT_EQ(layout.groups(1).members.size(), 15U);
  EXPECT_EQ(layout.groups(2).members,
            (groups{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}, {10, 11, 12, 13, 14}}));
  EXPECT_EQ(parallel_layout::parse("data=1").groups(0).members, (groups{{0}}));
}

TEST(ParallelLayout, ContainsEveryRankOncePerDimension) {
  for (const char* const text : {"a=2,b=3,c=4", "a=7", "a=1,b=1", "a=5,b=2,c=3,d=2"}) {
    const parallel_layout layout = parallel_layout::parse(text);
    for (std::size_t d = 0; d < layout.dimensions().size(); ++d) {
      const rank_groups all = layout.groups(d);
      std::vector<int> times(static_cast<std::size_t>(layout.ranks()));
      for (std::size_t i = 0; i < all.members.size(); ++i) {
        EXPECT_EQ(static_cast<int>(all.members[i].size()), layout.dimensions()[d].size);
        for (const int rank : all.members[i]) {
          ++times[static_cast<std::size_t>(rank)];
          EXPECT_EQ(all.find(rank), i);
        }
      }
      EXPECT_EQ(times, std::vector<int>(times.size(), 1)) << text;
      EXPECT_EQ(all.find(layout.ranks()), std::nullopt);
    }
  }
}

std::string refused(std::string_view text) {
  try {
    (void)parallel_layout::parse(text);
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::bad_option);
    return why.what();
  }
  return "taken";
}

TEST(ParallelLayout, ReportsSyntaxErrors) {
  const std::pair<const char*, const char*> all[] = {
      {"", R"("" is not a valid name)"},
      {"data=2,", R"("" is not a valid name)"},
      {"2tensor=2", "did you mean tensor?"},
      {"a b=2", R"("a b" is not a valid name)"},
      {"tensor", "layout tensor: missing size"},
      {"tensor=", R"("" is not a valid size)"},
      {"tensor=two", R"("two" is not a valid size)"},
      {"tensor=2x", R"("2x" is not a valid size)"},
      {"tensor=0", "give a number from 1 to 65536"},
      {"tensor=-1", R"("-1" is not a valid size)"},
      {"tensor=99999999999999", "is not a valid size"},
      {"tensor=2,data=2,tensor=2", "tensor is given twice"},
      {"a=60000,b=60000", "more than 65536 ranks"},
      {"a=2=2", R"("2=2" is not a valid size)"},
      {"a234567890123456789012345678901234=2", "is not a valid name"}};
  for (const auto& [text, words] : all) {
    EXPECT_NE(refused(text).find(words), std::string::npos) << text << ": " << refused(text);
  }
}

TEST(ParallelLayout, SuggestsSizes) {
  const parallel_layout layout = parallel_layout::parse("pipeline=2,data=2,tensor=2");
  EXPECT_NO_THROW(layout.check(8));
  const auto message = [&layout](int ranks) -> std::string {
    try {
      layout.check(ranks);
    } catch (const error& why) {
      return why.what();
    }
    return {};
  };
  EXPECT_NE(message(12).find("layout pipeline=2,data=2,tensor=2: 8 ranks, and the job has 12"),
            std::string::npos)
      << message(12);
  EXPECT_NE(message(12).find("use pipeline=3 or data=3 or tensor=3"), std::string::npos);
  EXPECT_NE(message(7).find("choose sizes whose product is 7"), std::string::npos) << message(7);
}

TEST(RanksText, AbbreviatesRuns) {
  EXPECT_EQ(ranks_text(std::vector{0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(ranks_text(std::vector{4, 0}), "4,0");
  EXPECT_EQ(ranks_text({}), "");
}

}  // namespace
}  // namespace tandem
