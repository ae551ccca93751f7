// The rail data of `tandem train`: the log of one rank, and the merged records of all ranks. Times
// are synthetic.
#include "apps/train_rails.hpp"

#include <gtest/gtest.h>

#include "rail_tracks.hpp"

namespace tandem::train {
namespace {

TEST(rail_logs, keep_bounded_points_and_every_loss) {
  rail_log log(0);
  constexpr int samples = 50'000;
  for (int sample = 0; sample <= samples; ++sample) {
    const bool lost = sample == 777;
    log.record(sample * 0.05, 1,
               {stats("r1", lost ? "lost" : "up", 10u * sample, 0, sample >= 777)});
    ASSERT_LE(log.rails().front().points.size(), rail_log::max_points);
  }
  log.finish(samples * 0.05 + 0.01);
  const std::vector<rail_point> points = log.rails().front().points;
  EXPECT_GE(points.size(), rail_log::max_points / 3);
  EXPECT_EQ(points.back().bytes(), 10u * samples);
  EXPECT_EQ(points.front().at_s, 0);
  int lost = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GT(points[i].at_s, points[i - 1].at_s);
    EXPECT_GE(points[i].bytes(), points[i - 1].bytes());
    if (points[i].worst != rail_state::lost) continue;
    ++lost;
    EXPECT_LE(points[i - 1].at_s, 777 * 0.05);
    EXPECT_GE(points[i].at_s, 777 * 0.05);
  }
  EXPECT_EQ(lost, 1);
}

TEST(rail_logs, detect_loss_between_two_samples) {
  rail_log log(0);
  log.record(0, 1, {stats("r1", "up", 0, 0)});
  log.record(0.1, 1, {stats("r1", "up", 10, 0, 1)});
  log.record(0.2, 1, {stats("r1", "up", 20, 0, 1)});
  const std::vector<rail_point> points = log.rails().front().points;
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[1].worst, rail_state::lost);
  EXPECT_EQ(points[2].worst, rail_state::up);
  EXPECT_EQ(log.rails().front().end.state, rail_state::up);
  EXPECT_EQ(log.rails().front().end.times_lost, 1U);
}

TEST(rail_logs, do_not_count_late_rail_as_lost) {
  rail_log log(0);
  log.record(0, 1, {});
  log.record(1, 1, {});
  log.record(2, 1, {stats("r1", "absent", 0, 0)});
  log.record(3, 1, {stats("r1", "up", 40, 2)});
  const std::vector<rail_point> points = log.rails().front().points;
  ASSERT_GE(points.size(), 2U);
  EXPECT_EQ(points.front().at_s, 1) << "nothing to detect before";
  EXPECT_EQ(points.back().worst, rail_state::up);
  EXPECT_EQ(points.back().bytes(), 42U);
}

TEST(rail_logs, are_kept_by_the_lower_rank_only) {
  EXPECT_EQ(log_with_a_loss(1, 0).rails().front().points.size(), 0U);
  EXPECT_EQ(log_with_a_loss(1, 0).rails().front().end.points, 0U);
  const rail_history kept = log_with_a_loss(0, 1).rails().front();
  EXPECT_EQ(kept.points.size(), 101U);
  EXPECT_EQ(kept.end.points, 101U);
}

TEST(rail_logs, sum_current_traffic_of_a_nic) {
  rail_log log(0);
  EXPECT_TRUE(log.live(0).empty());
  log.record(1, 1, {stats("r1", "up", 0, 0), stats("r2", "up", 0, 0)});
  log.record(1, 2, {stats("r1", "up", 0, 0)});
  log.live(1);
  log.record(2, 1, {stats("r1", "up", 300, 200), stats("r2", "lost", 50, 0, 1)});
  log.record(2, 2, {stats("r1", "suspect", 500, 0)});
  std::vector<nic_status> now = log.live(2);
  ASSERT_EQ(now.size(), 2U);
  EXPECT_EQ(now[0].nic, "r1");
  EXPECT_EQ(now[0].lanes, 2);
  EXPECT_EQ(now[0].up, 1);
  EXPECT_EQ(now[0].worst, rail_state::suspect);
  EXPECT_DOUBLE_EQ(now[0].bytes_per_s, 1000);
  EXPECT_EQ(now[1].worst, rail_state::lost);
  EXPECT_DOUBLE_EQ(now[1].bytes_per_s, 50);
  log.record(2.1, 1, {stats("r1", "up", 900'000, 200), stats("r2", "up", 50, 0, 1)});
  now = log.live(2.1);
  EXPECT_DOUBLE_EQ(now[0].bytes_per_s, 1000) << "a tenth of a second is no rate";
  EXPECT_EQ(now[1].up, 1) << "and a state is always the newest";
}

TEST(rail_names, begin_with_the_interface) {
  EXPECT_EQ(nic_of("eth1 10.0.1.2 - 10.0.1.3:4000"), "eth1");
  EXPECT_EQ(nic_of("eth1 over rxe1 port 1, GID 1 - 10.0.1.3"), "eth1/rxe1");
  EXPECT_EQ(nic_of("eth1 overt"), "eth1");
  EXPECT_EQ(nic_of("lo"), "lo");
  EXPECT_EQ(nic_of(""), "?");
  EXPECT_EQ(nic_of("e\033[1m x"), "e?[1m");
}

TEST(rail_records, merge_both_ends) {
  const std::vector<rail_record> all = records_with_a_loss();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].first_nic, "r1");
  EXPECT_EQ(all[0].second_nic, "r1");
  EXPECT_EQ(all[0].first_island, "nvidia");
  EXPECT_EQ(all[0].second_island, "amd");
  EXPECT_EQ(all[0].sent, 50'000'000U);
  EXPECT_EQ(all[0].times_lost, 0U);
  EXPECT_EQ(all[1].times_lost, 1U);
  EXPECT_EQ(all[1].epoch, 2U);
  EXPECT_EQ(all[1].why_lost, "the peer closed it") << "both ends agree";
  EXPECT_NEAR(all[0].share + all[1].share, 1, 1e-12);
  EXPECT_GT(all[0].share, 0.55);
  EXPECT_EQ(rails_summary(all), "2 rails between islands carried 180 MB; lost: r2 once");
  EXPECT_EQ(rails_summary({}), "");
}

TEST(rail_records, show_islands_first_and_name_sources) {
  std::vector<rail_history> ends(4);
  const int ranks[4][2] = {{0, 1}, {1, 2}, {2, 1}, {5, 0}};
  for (int i = 0; i < 4; ++i) {
    ends[i].end.rank = ranks[i][0];
    ends[i].end.peer = ranks[i][1];
    ends[i].end.nic = {'e'};
  }
  ends[1].end.why_lost = {'a'};
  ends[2].end.why_lost = {'b'};
  ends[2].end.times_lost = 2;
  ends[3].end.nic.fill('x');
  ends[3].end.why_lost.fill('x');
  const std::vector<rail_record> all = join_rails(ends, {"a", "a", "b"});
  ASSERT_EQ(all.size(), 2U) << "rank 5 is none of three";
  EXPECT_EQ(all[0].first, 1);
  EXPECT_EQ(all[0].why_lost, "rank 1: a; rank 2: b");
  EXPECT_EQ(all[1].second, 1);
  EXPECT_EQ(all[1].second_nic, "?") << "rank 1 has no data about it";
  EXPECT_EQ(rails_to_show(all).size(), 1U);
  EXPECT_EQ(rails_to_show({all[1]}).size(), 1U) << "where no rail is between islands";
  EXPECT_EQ(rails_summary(all), "1 rail between islands carried 0 B; lost: e twice");
  EXPECT_NE(rails_json(all).find(R"("ranks": [1, 2], "islands": ["a", "b"], "nics": ["e", "e"])"),
            std::string::npos)
      << rails_json(all);
}

TEST(rail_tracks, show_throughput_and_loss_in_time) {
  const rail_tracks made = make_tracks(records_with_a_loss(), 0.5);
  ASSERT_EQ(made.tracks.size(), 2U);
  EXPECT_EQ(made.tracks[0].name, "r1");
  EXPECT_NEAR(made.part_s, 0.1, 1e-9);
  ASSERT_EQ(made.tracks[1].parts.size(), 100U);
  for (const rail_track::part& p : made.tracks[0].parts) {
    EXPECT_NEAR(p.bytes_per_s, 10e6, 1e3);
    EXPECT_EQ(p.worst, rail_state::up);
  }
  const std::vector<rail_track::part>& lost = made.tracks[1].parts;
  EXPECT_NEAR(lost[25].bytes_per_s, 10e6, 1e3);
  EXPECT_NEAR(lost[29].bytes_per_s, 10e6, 1e3) << "later values do not lower it";
  for (int i = 31; i < 49; ++i) {
    EXPECT_EQ(lost[i].bytes_per_s, 0) << i;
    EXPECT_EQ(lost[i].lost, 1) << i;
  }
  EXPECT_EQ(lost[60].worst, rail_state::up);
}

TEST(rail_tracks, sum_ranks_sharing_nics_and_name_islands) {
  std::vector<rail_record> rails = records_with_a_loss();
  rails.push_back(rails[0]);
  rails.back().second = 3;
  rail_tracks made = make_tracks(rails, 0);
  EXPECT_EQ(made.track_of_rail, (std::vector<std::size_t>{0, 1, 0}));
  EXPECT_NEAR(made.tracks[0].parts[50].bytes_per_s, 20e6, 1e3);
  EXPECT_EQ(made.tracks[0].parts[50].rails, 2);
  rails.back().second_nic = "r9";
  rails.back().second_island = "cpu";
  made = make_tracks(rails, 0);
  EXPECT_EQ(made.tracks[2].name, "nvidia r1 - cpu r9");
  EXPECT_EQ(made.tracks[0].name, "nvidia r1 - amd r1");
}

}  // namespace
}  // namespace tandem::train
