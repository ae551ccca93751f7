// The store of a job that goes on with fewer ranks, without I/O.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/store_core.hpp"
#include "support/expected_log.hpp"
#include "support/text.hpp"

namespace {

using tandem::test::contains_text;
using tandem::test::expect_log;
using namespace tandem::rendezvous;
using std::chrono::milliseconds;
using tandem::errc;
using tandem::error;

constexpr store_core::time_point start_time{milliseconds(1'000'000)};

/// A core of a job of four ranks, served by rank 1: connection 10 + r is rank r.
store_core shrinking_core(int min_survivors, int lost_rank) {
  store_core::parameters p;
  p.size = 4;
  p.server_rank = 1;
  p.job = "job+1";
  p.where = "127.0.0.1:29500";
  p.meet_by = start_time + p.meet_timeout;
  p.min_survivors = min_survivors;
  p.lost_rank = lost_rank;
  return store_core(p);
}

store_core::connection_id connection(int rank) {
  return static_cast<store_core::connection_id>(10 + rank);
}

void join(store_core& core, int rank, int size = 4) {
  core.opened(connection(rank), "here", start_time);
  core.received(connection(rank), hello_request{rank, size, 30'000, 30'000, "job+1"}, start_time);
}

/// What connection `rank` got of one kind.
template <class Reply>
std::optional<Reply> got(const std::vector<store_core::output>& all, int rank) {
  for (const store_core::output& out : all) {
    if (out.to != connection(rank) || !out.message) continue;
    if (const Reply* reply = std::get_if<Reply>(&*out.message)) return *reply;
  }
  return {};
}

using members = std::vector<int>;

TEST(store_core_shrink, starts_when_all_but_the_lost_one_have_joined) {
  store_core core = shrinking_core(1, 0);
  for (const int rank : {1, 2}) join(core, rank);
  EXPECT_EQ(core.absent(), members{3});
  EXPECT_FALSE(got<started_reply>(core.take(), 1));
  join(core, 3);
  const auto out = core.take();
  for (const int rank : {1, 2, 3}) {
    ASSERT_TRUE(got<started_reply>(out, rank)) << rank;
    EXPECT_EQ(got<started_reply>(out, rank)->members, (members{1, 2, 3}));
  }
  EXPECT_EQ(core.server_rank(), 0);
  EXPECT_FALSE(core.next_deadline());
}

TEST(store_core_shrink, starts_without_ranks_that_are_unreachable) {
  store_core core = shrinking_core(1, -1);
  for (const int rank : {1, 3}) join(core, rank);
  core.unreachable(0);
  EXPECT_FALSE(got<started_reply>(core.take(), 1));
  core.unreachable(0);
  core.unreachable(2);
  const auto out = core.take();
  ASSERT_TRUE(got<started_reply>(out, 3));
  EXPECT_EQ(got<started_reply>(out, 3)->members, (members{1, 3}));
  core.unreachable(1);  // of no effect once it has started
  EXPECT_TRUE(core.take().empty());
}

TEST(store_core_shrink, a_rank_that_joined_and_is_lost_is_left_out) {
  for (const bool leaves : {false, true}) {
    store_core core = shrinking_core(1, 0);
    for (const int rank : {1, 3}) join(core, rank);
    if (leaves) {
      core.received(connection(3), leave_request{}, start_time);
    } else {
      core.closed(connection(3));
    }
    join(core, 2);
    const auto out = core.take();
    ASSERT_TRUE(got<started_reply>(out, 2)) << leaves;
    EXPECT_EQ(got<started_reply>(out, 2)->members, (members{1, 2}));
    EXPECT_FALSE(got<started_reply>(out, 3));
  }
}

TEST(store_core_shrink, the_last_absent_rank_leaves_while_the_others_wait) {
  store_core core = shrinking_core(1, 0);
  for (const int rank : {1, 2}) join(core, rank);
  core.unreachable(3);
  ASSERT_TRUE(got<started_reply>(core.take(), 2));
  // A loss in the new job names the new rank.
  core.closed(connection(2));
  const auto out = core.take();
  ASSERT_TRUE(got<notice_reply>(out, 1));
  EXPECT_EQ(got<notice_reply>(out, 1)->reason.context().peer, 1);
  EXPECT_TRUE(contains_text(got<notice_reply>(out, 1)->reason.what(), "rank 1 is gone"));
}

TEST(store_core_shrink, a_majority_goes_on_without_silent_ranks) {
  store_core core = shrinking_core(1, 0);
  for (const int rank : {1, 2}) join(core, rank);
  core.take();
  core.tick(start_time + milliseconds(30'000));
  const auto out = core.take();
  ASSERT_TRUE(got<started_reply>(out, 1));
  EXPECT_EQ(got<started_reply>(out, 1)->members, (members{1, 2}));
}

TEST(store_core_shrink, half_may_be_the_smaller_side_of_a_cut_network) {
  store_core core = shrinking_core(1, -1);
  for (const int rank : {1, 2}) join(core, rank);
  core.take();
  core.tick(start_time + milliseconds(30'000));
  const auto out = core.take();
  ASSERT_TRUE(got<notice_reply>(out, 1));
  EXPECT_EQ(got<notice_reply>(out, 1)->reason.code(), errc::rank_missing);
  EXPECT_TRUE(contains_text(got<notice_reply>(out, 1)->reason.what(), "ranks 0, 3 did not join"));
}

TEST(store_core_shrink, too_few_are_left) {
  store_core core = shrinking_core(3, 0);
  for (const int rank : {1, 2}) join(core, rank);
  core.unreachable(3);
  const auto out = core.take();
  for (const int rank : {1, 2}) {
    ASSERT_TRUE(got<notice_reply>(out, rank));
    EXPECT_EQ(got<notice_reply>(out, rank)->reason.code(), errc::rank_missing);
    EXPECT_TRUE(contains_text(got<notice_reply>(out, rank)->reason.what(),
                              "2 of 4 ranks are left, and the job needs 3"));
  }
}

TEST(store_core_shrink, ranks_that_were_given_up_are_refused) {
  store_core core = shrinking_core(1, 0);
  expect_log("the others gave up rank 0");
  join(core, 0);
  EXPECT_TRUE(got<refused_reply>(core.take(), 0));
  for (const int rank : {1, 2}) join(core, rank);
  core.unreachable(3);
  core.take();
  expect_log("the others gave up rank 3");
  join(core, 3);
  const auto out = core.take();
  ASSERT_TRUE(got<refused_reply>(out, 3));
  EXPECT_EQ(got<refused_reply>(out, 3)->reason.code(), errc::peer_lost);
}

TEST(store_core_shrink, ranks_of_another_job_or_size_are_refused) {
  store_core core = shrinking_core(1, 0);
  expect_log("was started as one of 5 ranks");
  join(core, 2, 5);
  EXPECT_EQ(got<refused_reply>(core.take(), 2)->reason.code(), errc::size_mismatch);
  expect_log("out of range");
  join(core, 7);
  EXPECT_EQ(got<refused_reply>(core.take(), 7)->reason.code(), errc::bad_input);
}

}  // namespace
