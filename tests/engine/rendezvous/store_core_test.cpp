#include "rendezvous/store_core.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tandem/log.hpp>
#include <vector>

#include "support/text.hpp"

namespace {

using tandem::test::contains_text;
using namespace tandem::rendezvous;
using std::chrono::milliseconds;
using tandem::errc;
using tandem::error;
using output = store_core::output;

/// A core of three ranks, driven manually: connection 10 + r is rank r.
class core_test : public testing::Test {
 protected:
  core_test() {
    old_sink_ = tandem::set_log_sink(
        [this](const tandem::log_record& r) { logged_ += std::string(r.text) + "\n"; });
  }
  ~core_test() override { tandem::set_log_sink(std::move(old_sink_)); }

  store_core::parameters parameters(int size = 3) const {
    store_core::parameters p;
    p.size = size;
    p.job = "job";
    p.where = "127.0.0.1:29500";
    p.meet_timeout = milliseconds(30'000);
    p.meet_by = start_ + p.meet_timeout;
    return p;
  }

  static hello_request hello(int rank, int size = 3) { return {rank, size, 30'000, 60'000, "job"}; }

  void join(store_core& core, int rank, int size = 3) {
    const auto id = static_cast<store_core::connection_id>(10 + rank);
    core.opened(id, "here", start_);
    core.received(id, hello(rank, size), start_);
  }

  void meet(store_core& core, int size = 3) {
    for (int rank = 0; rank < size; ++rank) join(core, rank, size);
    core.take();
  }

  std::ptrdiff_t lines() const { return std::count(logged_.begin(), logged_.end(), '\n'); }

  store_core::time_point start_ = store_core::time_point(milliseconds(1'000'000));
  std::string logged_;

 private:
  tandem::log_sink old_sink_;
};

template <class Reply>
const Reply* as(const output& out) {
  return out.message ? std::get_if<Reply>(&*out.message) : nullptr;
}

/// The outputs of one kind to one connection.
template <class Reply>
std::vector<Reply> to(const std::vector<output>& all, store_core::connection_id id) {
  std::vector<Reply> found;
  for (const output& out : all) {
    if (const Reply* reply = as<Reply>(out); reply != nullptr && out.to == id)
      found.push_back(*reply);
  }
  return found;
}

bool closes(const std::vector<output>& all, store_core::connection_id id) {
  for (const output& out : all) {
    if (out.to == id && out.close) return true;
  }
  return false;
}

// --- rendezvous

TEST_F(core_test, starts_when_last_rank_joins) {
  store_core core(parameters());
  for (const int rank : {2, 0}) {
    join(core, rank);
    const auto out = core.take();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_TRUE(as<accepted_reply>(out[0]));
    EXPECT_EQ(out[0].to, 10u + static_cast<unsigned>(rank));
    EXPECT_EQ(core.next_deadline(), start_ + milliseconds(30'000));
  }
  join(core, 1);
  const auto out = core.take();
  EXPECT_EQ(to<accepted_reply>(out, 11).size(), 1u);
  for (const unsigned id : {10u, 11u, 12u}) EXPECT_EQ(to<started_reply>(out, id).size(), 1u);
  EXPECT_FALSE(core.next_deadline());
  EXPECT_EQ(core.dropped(), 0u);
}

TEST_F(core_test, missing_ranks_are_reported_to_joined_ranks) {
  store_core core(parameters(6));
  for (const int rank : {0, 1, 3, 4}) join(core, rank, 6);
  core.take();
  core.tick(start_ + milliseconds(29'999));
  EXPECT_TRUE(core.take().empty());
  core.tick(start_ + milliseconds(30'000));
  const auto out = core.take();
  ASSERT_EQ(out.size(), 4u);
  for (const output& each : out) {
    const auto* notice = as<notice_reply>(each);
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->reason.code(), errc::rank_missing);
    EXPECT_EQ(notice->reason.context().peer, 2);
    EXPECT_TRUE(contains_text(notice->reason.what(),
                              "ranks 2, 5 did not join within 30 s: 4 of 6 are connected"));
    EXPECT_TRUE(contains_text(notice->reason.what(), "they can reach 127.0.0.1:29500"));
  }
  // A rank that joins later gets the same error, and one that then leaves changes nothing.
  join(core, 5, 6);
  const auto late = to<refused_reply>(core.take(), 15);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].reason.code(), errc::rank_missing);
  core.closed(11);
  EXPECT_TRUE(core.take().empty());
}

TEST_F(core_test, shortest_timeout_ends_the_rendezvous) {
  store_core core(parameters());
  core.opened(10, "here", start_);
  core.received(10, hello_request{0, 3, 5'000, 700, "job"}, start_);
  core.take();
  EXPECT_EQ(core.next_deadline(), start_ + milliseconds(700));
  core.tick(start_ + milliseconds(700));
  const auto notices = to<notice_reply>(core.take(), 10);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(contains_text(notices[0].reason.what(),
                            "ranks 1, 2 did not join within 5 s: 1 of 3 is connected"));
}

TEST_F(core_test, error_of_missing_ranks_names_the_last_refusal) {
  store_core core(parameters(2));
  join(core, 0, 2);
  core.opened(90, "10.0.0.2:4711", start_);
  core.untrusted(90, "job secret mismatch", start_);
  core.take();
  core.tick(start_ + milliseconds(30'000));
  const auto notices = to<notice_reply>(core.take(), 10);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(contains_text(notices[0].reason.what(),
                            "1 of 2 is connected; refused 10.0.0.2:4711: job secret mismatch"));
}

TEST_F(core_test, long_list_of_missing_ranks_is_truncated) {
  store_core core(parameters(100));
  join(core, 0, 100);
  core.take();
  core.tick(start_ + milliseconds(30'000));
  const auto notices = to<notice_reply>(core.take(), 10);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(contains_text(notices[0].reason.what(), "ranks 1, 2, 3"));
  EXPECT_TRUE(contains_text(notices[0].reason.what(), "16 and 83 more did not join"));
}

TEST_F(core_test, wrong_hello_is_refused_and_others_keep_waiting) {
  struct wrong {
    hello_request hello;
    errc code;
    const char* expected;
  };
  const std::vector<wrong> cases{
      {{1, 4, 1, 60'000, "job"}, errc::size_mismatch, "rank 1 was started as one of 4 ranks"},
      {{3, 3, 1, 60'000, "job"}, errc::bad_input, "rank 3 is out of range in a job of 3 ranks"},
      {{-1, 3, 1, 60'000, "job"}, errc::bad_input, "rank -1 is out of range"},
      {{0, 3, 1, 60'000, "job"},
       errc::rank_taken,
       "rank 0 of the job at 127.0.0.1:29500 has already joined"},
      {{1, 3, 1, 60'000, "job.2"},
       errc::job_mismatch,
       "serves job 'job', this rank belongs to job 'job.2'"},
  };
  store_core core(parameters());
  join(core, 0);
  core.take();
  store_core::connection_id id = 100;
  for (const wrong& each : cases) {
    core.opened(++id, "there", start_);
    core.received(id, each.hello, start_);
    const auto out = core.take();
    ASSERT_EQ(out.size(), 1u);
    const auto* refused = as<refused_reply>(out[0]);
    ASSERT_TRUE(refused);
    EXPECT_TRUE(out[0].close);
    EXPECT_EQ(out[0].to, id);
    EXPECT_EQ(refused->reason.code(), each.code);
    EXPECT_TRUE(contains_text(refused->reason.what(), each.expected));
    EXPECT_FALSE(refused->reason.context().advice.empty());
    EXPECT_TRUE(contains_text(logged_, "refused there"));
    core.closed(id);
  }
  EXPECT_EQ(core.dropped(), cases.size());
  EXPECT_TRUE(core.take().empty());
  join(core, 1);
  join(core, 2);
  EXPECT_EQ(to<started_reply>(core.take(), 10).size(), 1u);
}

TEST_F(core_test, rank_lost_during_rendezvous_ends_it) {
  store_core core(parameters());
  join(core, 0);
  join(core, 2);
  core.take();
  core.closed(12);
  const auto out = core.take();
  ASSERT_EQ(out.size(), 1u);
  ASSERT_TRUE(as<notice_reply>(out[0]));
  EXPECT_EQ(as<notice_reply>(out[0])->reason.context().peer, 2);
  EXPECT_EQ(as<notice_reply>(out[0])->reason.code(), errc::peer_lost);
}

// --- unauthenticated connections

TEST_F(core_test, unidentified_connection_times_out) {
  store_core core(parameters());
  core.opened(7, "10.0.0.9:5", start_);
  EXPECT_EQ(core.next_deadline(), start_ + milliseconds(5'000));
  core.tick(start_ + milliseconds(4'999));
  EXPECT_TRUE(core.take().empty());
  core.tick(start_ + milliseconds(5'000));
  EXPECT_TRUE(closes(core.take(), 7));
  EXPECT_EQ(core.dropped(), 1u);
  EXPECT_TRUE(contains_text(logged_, "10.0.0.9:5"));
  core.received(7, hello(1), start_);
  EXPECT_TRUE(core.take().empty());
}

TEST_F(core_test, longest_silent_unauthenticated_peer_is_evicted) {
  store_core core(parameters());
  for (store_core::connection_id id = 100; id < 164; ++id) core.opened(id, "there", start_);
  core.bytes_arrived(100);
  EXPECT_TRUE(core.take().empty());
  core.opened(164, "there", start_);
  EXPECT_TRUE(closes(core.take(), 101));
  for (store_core::connection_id id = 100; id < 165; ++id) core.bytes_arrived(id);
  core.opened(165, "there", start_);
  EXPECT_TRUE(closes(core.take(), 100));
  core.received(102, hello(1), start_);
  core.take();
  core.opened(166, "there", start_);  // takes the slot of the connection that is now identified
  EXPECT_TRUE(core.take().empty());
}

TEST_F(core_test, unauthenticated_peers_are_counted_and_logged_once) {
  store_core core(parameters());
  for (store_core::connection_id id = 0; id < 1'000; ++id) core.opened(id, "there", start_);
  EXPECT_EQ(core.take().size(), 1'000u - 64);
  EXPECT_EQ(core.dropped(), 1'000u - 64);
  EXPECT_EQ(lines(), 1);
  core.tick(start_ + milliseconds(5'000));
  EXPECT_EQ(core.dropped(), 1'000u);
  EXPECT_EQ(lines(), 2);  // these sent nothing
  EXPECT_TRUE(contains_text(logged_, "handshake timeout: not identified within 5 s"));
  for (store_core::connection_id id = 2'000; id < 2'065; ++id) {
    core.opened(id, "there", start_ + milliseconds(10'000));
  }
  EXPECT_TRUE(contains_text(logged_, "936 more of this kind"));
  EXPECT_EQ(lines(), 3);
}

TEST_F(core_test, failed_proof_drops_only_that_connection) {
  store_core core(parameters());
  join(core, 0);
  core.take();
  core.opened(7, "10.0.0.9:5", start_);
  core.untrusted(7, "job secret mismatch", start_);
  EXPECT_TRUE(closes(core.take(), 7));
  EXPECT_TRUE(contains_text(logged_, "10.0.0.9:5: job secret mismatch"));
  EXPECT_EQ(core.dropped(), 1u);
  core.untrusted(7, "again", start_);
  EXPECT_TRUE(core.take().empty());
}

TEST_F(core_test, hostile_bytes_close_only_their_connection) {
  store_core core(parameters());
  join(core, 0);
  core.take();
  core.opened(7, "there", start_);
  core.malformed(7, "no request", start_);
  auto out = core.take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(closes(out, 7));
  core.opened(8, "there", start_);
  core.received(8, get_request{1, 1, {"key"}}, start_);  // before its hello
  out = core.take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(closes(out, 8));
  EXPECT_EQ(core.dropped(), 2u);
}

TEST_F(core_test, protocol_violation_is_reported_to_all) {
  store_core core(parameters());
  meet(core);
  core.received(12, hello(2), start_);
  const auto out = core.take();
  EXPECT_TRUE(closes(out, 12));
  EXPECT_TRUE(to<notice_reply>(out, 12).empty());
  for (const unsigned id : {10u, 11u}) {
    const auto notices = to<notice_reply>(out, id);
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].reason.code(), errc::protocol_violation);
    EXPECT_EQ(notices[0].reason.context().peer, 2);
  }
}

// --- losses and close

TEST_F(core_test, first_loss_is_reported_once) {
  store_core core(parameters());
  meet(core);
  core.received(10, get_request{1, 1'000, {"never"}}, start_);
  core.received(11, get_request{1, 1'000, {"never"}}, start_);
  core.closed(11);
  auto out = core.take();
  ASSERT_EQ(out.size(), 2u);
  const auto to_0 = to<notice_reply>(out, 10);
  const auto to_2 = to<notice_reply>(out, 12);
  ASSERT_EQ(to_0.size(), 1u);
  ASSERT_EQ(to_2.size(), 1u);
  EXPECT_STREQ(to_0[0].reason.what(), to_2[0].reason.what());
  EXPECT_EQ(to_0[0].reason.code(), errc::peer_lost);
  EXPECT_EQ(to_0[0].reason.context().peer, 1);
  EXPECT_TRUE(contains_text(to_0[0].reason.what(), "rank 1 is gone"));
  EXPECT_FALSE(core.next_deadline());
  // The second loss is not reported; later requests fail with the first cause.
  core.closed(12);
  EXPECT_TRUE(core.take().empty());
  core.received(10, get_request{3, 1'000, {"never"}}, start_);
  core.received(10, set_request{4, "k", "v"}, start_);
  const auto failed = to<failed_reply>(core.take(), 10);
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[0].reason.context().peer, 1);
}

TEST_F(core_test, report_reaches_all_with_text_and_culprit) {
  store_core core(parameters());
  meet(core);
  tandem::error_context c;
  c.peer = 2;
  c.detail = "gradient is not a number";
  core.received(11, report_request{error(make_error_code(errc::bad_input), c)}, start_);
  core.received(12, report_request{error(errc::timed_out, "second")}, start_);
  core.report(0, error(errc::timed_out, "third"));
  const auto out = core.take();
  ASSERT_EQ(out.size(), 3u);
  for (const unsigned id : {10u, 11u, 12u}) {
    const auto notices = to<notice_reply>(out, id);
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].reason.code(), errc::bad_input);
    EXPECT_EQ(notices[0].reason.context().peer, 2);
    EXPECT_EQ(notices[0].reason.context().rank, 1);
    EXPECT_EQ(notices[0].reason.context().detail, "gradient is not a number");
  }
}

TEST_F(core_test, report_without_culprit_names_its_rank) {
  store_core core(parameters());
  meet(core);
  core.report(0, error(errc::bad_input, "no data"));
  EXPECT_EQ(to<notice_reply>(core.take(), 12).at(0).reason.context().peer, 0);
}

TEST_F(core_test, leaving_is_no_loss) {
  store_core core(parameters());
  meet(core);
  core.received(12, leave_request{}, start_);
  const auto out = core.take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(closes(out, 12));
  core.closed(12);
  EXPECT_TRUE(core.take().empty());
  core.opened(20, "there", start_);
  core.received(20, hello(2), start_);
  const auto again = to<refused_reply>(core.take(), 20);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].reason.code(), errc::rank_taken);
  EXPECT_FALSE(core.is_finished());
  core.leave(0);
  EXPECT_EQ(to<leaving_reply>(core.take(), 11).size(), 1u);
  // The remaining ranks can still send requests and are still notified of a loss.
  core.received(11, set_request{1, "k", "v"}, start_);
  EXPECT_EQ(to<done_reply>(core.take(), 11).size(), 1u);
  core.received(11, leave_request{}, start_);
  EXPECT_TRUE(core.is_finished());
}

}  // namespace
