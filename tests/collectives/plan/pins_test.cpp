#include <gtest/gtest.h>

#include <tandem/error.hpp>
#include <tandem/plan.hpp>

namespace tandem {
namespace {

constexpr std::size_t kilo = 1024;

plan pinned(std::string_view pins, int ranks = 4) {
  settings options;
  options.plan = pins;
  return plan::standard(ranks, options);
}

std::string error_text(std::string_view pins) {
  try {
    pinned(pins);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no error";
}

TEST(Pins, ReplaceOnlyTheirRules) {
  const plan usual = pinned("");
  const plan with = pinned("all_reduce:4K-1M=halving_doubling,broadcast=chain/64K");
  for (std::size_t bytes = 1; bytes < 4096 * kilo; bytes = bytes * 3 / 2 + 1) {
    const plan_rule& rule = with.choose(collective::all_reduce, bytes);
    if (bytes >= 4 * kilo && bytes < 1024 * kilo) {
      EXPECT_EQ(rule.how, algorithm::halving_doubling) << bytes;
      EXPECT_EQ(rule.why, "pinned");
    } else {
      EXPECT_EQ(rule.how, usual.choose(collective::all_reduce, bytes).how) << bytes;
      EXPECT_NE(rule.why, "pinned");
    }
    EXPECT_EQ(with.choose(collective::broadcast, bytes).how, algorithm::chain);
    EXPECT_EQ(with.choose(collective::broadcast, bytes).chunk_bytes, 64 * kilo);
    EXPECT_EQ(with.choose(collective::reduce, bytes).how,
              usual.choose(collective::reduce, bytes).how);
  }
  EXPECT_EQ(with.choose(collective::all_reduce, 4 * kilo - 1).how, algorithm::recursive_doubling);
  EXPECT_EQ(with.choose(collective::all_reduce, 1024 * kilo).how, algorithm::ring);
}

TEST(Pins, OpenRangesReachToTheEnds) {
  const plan with = pinned("all_gather:-100=direct,all_gather:100-=bruck");
  EXPECT_EQ(with.choose(collective::all_gather, 0).how, algorithm::direct);
  EXPECT_EQ(with.choose(collective::all_gather, 99).how, algorithm::direct);
  EXPECT_EQ(with.choose(collective::all_gather, 100).how, algorithm::bruck);
  EXPECT_EQ(with.choose(collective::all_gather, 1u << 31).how, algorithm::bruck);
}

TEST(Pins, LaterPinOverrides) {
  const plan with = pinned("all_reduce=ring,all_reduce:-1K=recursive_doubling");
  EXPECT_EQ(with.choose(collective::all_reduce, 1023).how, algorithm::recursive_doubling);
  EXPECT_EQ(with.choose(collective::all_reduce, 1024).how, algorithm::ring);
}

TEST(Pins, ChunkAloneKeepsAlgorithms) {
  const plan usual = pinned("");
  const plan with = pinned("all_reduce=automatic/128K");
  for (const std::size_t bytes : {8 * kilo, 64 * kilo, 1024 * kilo}) {
    const plan_rule& rule = with.choose(collective::all_reduce, bytes);
    EXPECT_EQ(rule.how, usual.choose(collective::all_reduce, bytes).how);
    EXPECT_EQ(rule.chunk_bytes, 128 * kilo);
    EXPECT_TRUE(rule.why.starts_with("chunk pinned")) << rule.why;
  }
}

TEST(Pins, ChangeTheTextAndTheHash) {
  EXPECT_NE(pinned("").hash(), pinned("all_reduce=ring").hash());
  EXPECT_NE(pinned("all_reduce=ring").hash(), pinned("all_reduce=ring/256K").hash());
  EXPECT_EQ(pinned("all_reduce=ring").hash(),
            pinned("all_reduce=recursive_doubling,all_reduce=ring").hash());
}

TEST(Pins, MistakesSuggestNearestName) {
  EXPECT_EQ(error_text("al_reduce=ring"),
            "plan al_reduce=ring: al_reduce: no such operation; did you mean all_reduce?");
  EXPECT_EQ(error_text("broadcast=tree,all_reduce=rign"),
            "plan all_reduce=rign: rign: no algorithm of all_reduce; did you mean ring?");
  EXPECT_NE(error_text("broadcast=ring").find("choose automatic, board, tree, chain"),
            std::string::npos);
  EXPECT_NE(error_text("frobnicate=ring").find("choose barrier, broadcast"), std::string::npos);
  EXPECT_NE(error_text("all_reduce").find("not a pin; write OPERATION[:FROM-BELOW]"),
            std::string::npos);
  EXPECT_NE(error_text("all_reduce=ring,,").find("not a pin"), std::string::npos);
  EXPECT_NE(error_text("all_reduce:64K=ring").find("write 64K- for lengths from 64K on"),
            std::string::npos);
  EXPECT_NE(error_text("all_reduce:64Q-=ring").find("64Q: not a number of bytes"),
            std::string::npos);
  EXPECT_NE(error_text("all_reduce:1M-64K=ring").find("the range is empty"), std::string::npos);
  EXPECT_NE(error_text("all_reduce=ring/12").find("less than 1K"), std::string::npos);
  EXPECT_NE(error_text("all_reduce=automatic").find("pins nothing"), std::string::npos);
}

}  // namespace
}  // namespace tandem
