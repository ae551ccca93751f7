// The layout of a training job, without processes and sockets.
#include <gtest/gtest.h>

#include <tandem/error.hpp>

#include "layout.hpp"

namespace tandem::train {
namespace {

std::string refusal(const layout_options& wanted, int layers) {
  try {
    const layout made(wanted, layers);
    return "accepted: " + made.text();
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::bad_option);
    return failure.what();
  }
}

TEST(layout, default_is_two_islands_of_two_stages) {
  const layout made({}, 4);
  EXPECT_EQ(made.text(), "2 stages x 2 replicas, layers 2+2, nvidia ranks 0-1, amd ranks 2-3");
  EXPECT_EQ(made.pipeline(1), (std::vector<int>{1, 3}));
  EXPECT_EQ(made.replicas_of(1), (std::vector<int>{2, 3}));
}

TEST(layout, replicas_that_are_left) {
  const layout before({.ranks = 6, .islands = "", .split = ""}, 4);  // rank = stage * 3 + replica
  EXPECT_EQ(complete_replicas(before, {0, 1, 2, 3, 4, 5}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(complete_replicas(before, {0, 1, 2, 3, 5}), (std::vector<int>{0, 2}));
  EXPECT_EQ(complete_replicas(before, {1, 2, 3, 4}), (std::vector<int>{1}));
  EXPECT_EQ(complete_replicas(before, {0, 1, 5}), std::vector<int>{});
  EXPECT_EQ(ranks_of(before, {0, 2}), (std::vector<int>{0, 2, 3, 5}));
  const layout after = before.with_replicas(2);
  EXPECT_EQ(after.text(), "2 stages x 2 replicas, layers 2+2, nvidia ranks 0-1, amd ranks 2-3");
  for (int rank = 0; rank < 4; ++rank) {
    const int old = ranks_of(before, {0, 2})[static_cast<std::size_t>(rank)];
    EXPECT_EQ(after.at(rank).stage, before.at(old).stage);
    EXPECT_EQ(after.at(rank).island, before.at(old).island);
  }
}

TEST(layout, every_rank_has_its_coordinates) {
  const layout made({.islands = "nvidia:2,amd:1,cpu:1", .stages = 4, .split = "1,3,2,1"}, 7);
  const int islands[] = {0, 0, 1, 2};
  const int first_layers[] = {0, 1, 4, 6};
  const int layers[] = {1, 3, 2, 1};
  for (int rank = 0; rank < 4; ++rank) {
    const rank_location at = made.at(rank);
    EXPECT_EQ(at.stage, rank);
    EXPECT_EQ(at.replica, 0);
    EXPECT_EQ(at.island, islands[rank]);
    EXPECT_EQ(made.layers_of(rank).first, first_layers[rank]);
    EXPECT_EQ(made.layers_of(rank).count, layers[rank]);
  }
}

TEST(layout, every_rank_and_layer_has_exactly_one_owner) {
  for (const int ranks : {1, 2, 4, 8, 12}) {
    for (int stages = 1; stages <= ranks; ++stages) {
      if (ranks % stages != 0 || (ranks > 1 && stages % 2 != 0)) continue;
      const layout made({.ranks = ranks, .islands = {}, .stages = stages, .split = {}}, 13);
      int layers = 0;
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(made.layers_of(made.rank_of(stage, 0)).first, layers);
        layers += made.layers_of(made.rank_of(stage, 0)).count;
      }
      EXPECT_EQ(layers, 13);
      for (int rank = 0; rank < ranks; ++rank) {
        const rank_location at = made.at(rank);
        EXPECT_EQ(made.rank_of(at.stage, at.replica), rank);
        EXPECT_EQ(made.pipeline(at.replica)[static_cast<std::size_t>(at.stage)], rank);
        EXPECT_EQ(made.replicas_of(at.stage)[static_cast<std::size_t>(at.replica)], rank);
      }
    }
  }
}

TEST(layout, chunks_are_looped_or_in_a_v) {
  layout_options options{.ranks = 4, .islands = {}, .stages = 2, .split = "1,2,3,4", .chunks = 2};
  const layout looped(options, 10);
  EXPECT_EQ(looped.text(),
            "2 stages of 2 chunks x 2 replicas, layers 1+2+3+4, nvidia ranks 0-1, amd ranks 2-3");
  EXPECT_EQ(looped.layers_of(0, 0).first, 0);
  EXPECT_EQ(looped.layers_of(1, 1).first, 3);
  EXPECT_EQ(looped.layers_of(2, 0).first, 1);
  EXPECT_EQ(looped.layers_of(3, 1).first, 6);
  options.placement = pipeline_placement::v;
  const layout v(options, 10);
  EXPECT_EQ(v.layers_of(0, 1).first, 6);
  EXPECT_EQ(v.layers_of(0, 1).count, 4);
  EXPECT_EQ(v.layers_of(2, 1).first, 3);
  EXPECT_EQ(refusal(options, 11).find("--split 1,2,3,4 adds up to 10 layers"), 0u);
  EXPECT_EQ(refusal(options, 3),
            "2 stages of 2 chunks cannot share 3 layers; choose fewer --stages or --chunks, or a "
            "deeper --model");
}

TEST(layout, remaining_layers_go_to_first_stages) {
  EXPECT_EQ(layout({.ranks = 4, .islands = {}, .stages = 4, .split = {}}, 6).split(),
            (std::vector<int>{2, 2, 1, 1}));
}

TEST(layout, one_rank_holds_everything) {
  const layout made = layout::single(5);
  EXPECT_EQ(made.ranks(), 1);
  EXPECT_EQ(made.layers_of(0).count, 5);
  EXPECT_EQ(layout({.ranks = 1, .islands = {}, .stages = 0, .split = {}}, 5).layers_of(0).count, 5);
}

TEST(layout, indivisible_sizes_are_refused_with_suggestion) {
  EXPECT_EQ(refusal({.ranks = 4, .islands = {}, .stages = 3, .split = {}}, 4),
            "4 ranks do not divide into 3 stages; choose --stages 1, 2, 4");
  EXPECT_EQ(
      refusal({.ranks = 4, .islands = {}, .stages = 1, .split = {}}, 4),
      "stages of 4 ranks do not fill the islands: nvidia has 2; a stage may not span islands; "
      "choose another number "
      "of --stages or other --islands");
  EXPECT_EQ(refusal({.ranks = 8, .islands = {}, .stages = 8, .split = {}}, 4),
            "8 stages cannot share 4 layers; choose --stages 1 to 4 or a deeper --model");
  EXPECT_EQ(refusal({.ranks = 3, .islands = {}, .stages = 0, .split = {}}, 4),
            "3 ranks do not divide into two islands of equal size; choose the islands: --islands "
            "nvidia:2,amd:1 --stages 3");
  EXPECT_EQ(refusal({.ranks = 6, .islands = "nvidia:2,amd:2", .stages = 0, .split = {}}, 4),
            "--islands nvidia:2,amd:2 has 4 ranks, but the job has 6; make the two numbers equal");
}

TEST(layout, invalid_split_is_refused_with_suggestion) {
  const std::string right = "; the model has 4 layers and the pipeline 2 stages: --split 2,2";
  EXPECT_EQ(refusal({.ranks = 4, .islands = {}, .stages = 0, .split = "3,2"}, 4),
            "--split 3,2 adds up to 5 layers" + right);
  EXPECT_EQ(refusal({.ranks = 4, .islands = {}, .stages = 0, .split = "4"}, 4),
            "--split 4 has 1 stages" + right);
  EXPECT_EQ(refusal({.ranks = 4, .islands = {}, .stages = 0, .split = "4,0"}, 4),
            "--split 4,0: every stage needs at least one layer" + right);
  EXPECT_EQ(refusal({.ranks = 4, .islands = {}, .stages = 0, .split = "2,x"}, 4),
            "--split 2,x: every stage needs at least one layer" + right);
}

TEST(layout, malformed_islands_are_refused) {
  for (const char* wrong : {"", "nvidia", "nvidia:", ":2", "nvidia:0", "nvidia:-1", "nvidia:2,",
                            "a:2x", "a:99999999999"}) {
    EXPECT_THROW(parse_islands(wrong), error) << wrong;
  }
  const std::vector<island> right = parse_islands("nvidia:3,amd:1");
  ASSERT_EQ(right.size(), 2U);
  EXPECT_EQ(right[0].name, "nvidia");
  EXPECT_EQ(right[0].ranks, 3);
  EXPECT_EQ(right[1].ranks, 1);
}

}  // namespace
}  // namespace tandem::train
