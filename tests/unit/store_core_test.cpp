#include "rendezvous/store_core.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <tandem/log.hpp>
#include <vector>

namespace {

using namespace tandem::rendezvous;
using std::chrono::milliseconds;
using tandem::errc;
using tandem::error;
using output = store_core::output;

/// A core of three ranks, driven by hand: connection 10 + r is to be rank r.
class core_test : public testing::Test {
 protected:
  core_test() {
    old_sink_ = tandem::set_log_sink(
        [this](const tandem::log_record& r) { logged_ += std::string(r.text) + "\n"; });
  }
  ~core_test() override { tandem::set_log_sink(std::move(old_sink_)); }

  store_core::plan plan(int size = 3) const {
    store_core::plan p;
    p.size = size;
    p.job = "job";
    p.where = "127.0.0.1:29500";
    p.meet_timeout = milliseconds(30'000);
    p.meet_by = start_ + p.meet_timeout;
    return p;
  }

  static hello_request hello(int rank, int size = 3) { return {rank, size, 30'000, 60'000, "job"}; }

  void come(store_core& core, int rank, int size = 3) {
    const auto id = static_cast<store_core::connection>(10 + rank);
    core.opened(id, "here", start_);
    core.received(id, hello(rank, size), start_);
  }

  void meet(store_core& core, int size = 3) {
    for (int rank = 0; rank < size; ++rank) come(core, rank, size);
    core.take();
  }

  store_core::time_point start_ = store_core::time_point(milliseconds(1'000'000));
  std::string logged_;

 private:
  tandem::log_sink old_sink_;
};

template <class Reply>
const Reply* as(const output& out) {
  return out.message ? std::get_if<Reply>(&*out.message) : nullptr;
}

/// The outputs to one connection, of one kind.
template <class Reply>
std::vector<Reply> to(const std::vector<output>& all, store_core::connection id) {
  std::vector<Reply> found;
  for (const output& out : all) {
    if (const Reply* reply = as<Reply>(out); reply != nullptr && out.to == id)
      found.push_back(*reply);
  }
  return found;
}

bool closes(const std::vector<output>& all, store_core::connection id) {
  for (const output& out : all) {
    if (out.to == id && out.close) return true;
  }
  return false;
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

// --- meeting

TEST_F(core_test, all_start_when_the_last_has_come) {
  store_core core(plan());
  for (const int rank : {2, 0}) {
    come(core, rank);
    const auto out = core.take();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_TRUE(as<accepted_reply>(out[0]));
    EXPECT_EQ(out[0].to, 10u + static_cast<unsigned>(rank));
    EXPECT_EQ(core.next_deadline(), start_ + milliseconds(30'000));
  }
  come(core, 1);
  const auto out = core.take();
  EXPECT_EQ(to<accepted_reply>(out, 11).size(), 1u);
  for (const unsigned id : {10u, 11u, 12u}) EXPECT_EQ(to<started_reply>(out, id).size(), 1u);
  EXPECT_FALSE(core.next_deadline());
  EXPECT_EQ(core.dropped(), 0u);
}

TEST_F(core_test, every_rank_that_came_hears_who_is_missing) {
  store_core core(plan(6));
  for (const int rank : {0, 1, 3, 4}) come(core, rank, 6);
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
    EXPECT_TRUE(has(notice->reason.what(), "ranks 2, 5 never came within 30 s: 4 of 6 are here"));
    EXPECT_TRUE(has(notice->reason.what(), "they can reach 127.0.0.1:29500"));
  }
  // Who comes later hears the same, and who then leaves changes nothing.
  come(core, 5, 6);
  const auto late = to<refused_reply>(core.take(), 15);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].reason.code(), errc::rank_missing);
  core.closed(11);
  EXPECT_TRUE(core.take().empty());
}

TEST_F(core_test, the_rank_that_waits_least_decides_when_meeting_ends) {
  store_core core(plan());
  core.opened(10, "here", start_);
  core.received(10, hello_request{0, 3, 5'000, 700, "job"}, start_);
  core.take();
  EXPECT_EQ(core.next_deadline(), start_ + milliseconds(700));
  core.tick(start_ + milliseconds(700));
  const auto notices = to<notice_reply>(core.take(), 10);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(has(notices[0].reason.what(), "ranks 1, 2 never came within 5 s: 1 of 3 is here"));
}

TEST_F(core_test, a_long_list_of_missing_ranks_is_cut) {
  store_core core(plan(100));
  come(core, 0, 100);
  core.take();
  core.tick(start_ + milliseconds(30'000));
  const auto notices = to<notice_reply>(core.take(), 10);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(has(notices[0].reason.what(), "ranks 1, 2, 3"));
  EXPECT_TRUE(has(notices[0].reason.what(), "16 and 83 more never came"));
}

TEST_F(core_test, a_wrong_hello_is_refused_and_the_others_go_on_waiting) {
  struct wrong {
    hello_request hello;
    errc code;
    const char* says;
  };
  const std::vector<wrong> cases{
      {{1, 4, 1, 60'000, "job"}, errc::size_mismatch, "rank 1 was started as one of 4 ranks"},
      {{3, 3, 1, 60'000, "job"}, errc::bad_input, "rank 3 does not fit a job of 3 ranks"},
      {{-1, 3, 1, 60'000, "job"}, errc::bad_input, "rank -1 does not fit"},
      {{0, 3, 1, 60'000, "job"},
       errc::rank_taken,
       "rank 0 of the job at 127.0.0.1:29500 already has come"},
      {{1, 3, 1, 60'000, "job.2"},
       errc::job_mismatch,
       "serves job 'job', this rank belongs to job 'job.2'"},
  };
  store_core core(plan());
  come(core, 0);
  core.take();
  store_core::connection id = 100;
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
    EXPECT_TRUE(has(refused->reason.what(), each.says));
    EXPECT_FALSE(refused->reason.context().advice.empty());
    EXPECT_TRUE(has(logged_, "refused there"));
    core.closed(id);
  }
  EXPECT_EQ(core.dropped(), cases.size());
  EXPECT_TRUE(core.take().empty());
  come(core, 1);
  come(core, 2);
  EXPECT_EQ(to<started_reply>(core.take(), 10).size(), 1u);
}

TEST_F(core_test, a_rank_that_dies_while_others_meet_ends_the_meeting) {
  store_core core(plan());
  come(core, 0);
  come(core, 2);
  core.take();
  core.closed(12);
  const auto out = core.take();
  ASSERT_EQ(out.size(), 1u);
  ASSERT_TRUE(as<notice_reply>(out[0]));
  EXPECT_EQ(as<notice_reply>(out[0])->reason.context().peer, 2);
  EXPECT_EQ(as<notice_reply>(out[0])->reason.code(), errc::peer_lost);
}

// --- strangers

TEST_F(core_test, who_does_not_say_its_name_in_time_is_dropped) {
  store_core core(plan());
  core.opened(7, "10.0.0.9:5", start_);
  EXPECT_EQ(core.next_deadline(), start_ + milliseconds(5'000));
  core.tick(start_ + milliseconds(4'999));
  EXPECT_TRUE(core.take().empty());
  core.tick(start_ + milliseconds(5'000));
  EXPECT_TRUE(closes(core.take(), 7));
  EXPECT_EQ(core.dropped(), 1u);
  EXPECT_TRUE(has(logged_, "10.0.0.9:5"));
  core.received(7, hello(1), start_);
  EXPECT_TRUE(core.take().empty());
}

TEST_F(core_test, too_many_strangers_wait_outside) {
  store_core core(plan());
  for (store_core::connection id = 100; id < 164; ++id) {
    EXPECT_TRUE(core.may_accept());
    core.opened(id, "there", start_);
  }
  EXPECT_FALSE(core.may_accept());
  core.opened(164, "there", start_);
  EXPECT_TRUE(closes(core.take(), 164));
  core.received(100, hello(1), start_);
  EXPECT_TRUE(core.may_accept());
}

TEST_F(core_test, hostile_bytes_close_their_connection_and_no_other) {
  store_core core(plan());
  come(core, 0);
  core.take();
  core.opened(7, "there", start_);
  core.malformed(7, "no request");
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

TEST_F(core_test, a_rank_that_breaks_the_protocol_is_named_to_all) {
  store_core core(plan());
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

// --- keys

TEST_F(core_test, get_answers_at_once_what_is_there_in_order) {
  store_core core(plan());
  meet(core);
  core.received(11, set_request{1, "a", "1"}, start_);
  core.received(11, set_request{2, "b", std::string("\0\xff", 2)}, start_);
  core.received(11, set_request{3, "a", "new"}, start_);
  EXPECT_EQ(to<done_reply>(core.take(), 11).size(), 3u);
  core.received(12, get_request{9, 1'000, {"b", "a", "b"}}, start_);
  const auto values = to<values_reply>(core.take(), 12);
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0].id, 9u);
  EXPECT_EQ(values[0].values,
            (std::vector<std::string>{std::string("\0\xff", 2), "new", std::string("\0\xff", 2)}));
  core.received(12, get_request{10, 0, {}}, start_);
  EXPECT_EQ(to<values_reply>(core.take(), 12).size(), 1u);
}

TEST_F(core_test, get_waits_for_its_last_key) {
  store_core core(plan());
  meet(core);
  core.received(11, get_request{1, 1'000, {"a", "b", "a"}}, start_);
  core.received(12, get_request{2, 2'000, {"b"}}, start_);
  EXPECT_TRUE(core.take().empty());
  EXPECT_EQ(core.next_deadline(), start_ + milliseconds(1'000));
  core.received(10, set_request{1, "b", "B"}, start_);
  auto out = core.take();
  EXPECT_EQ(to<values_reply>(out, 12).size(), 1u);
  EXPECT_TRUE(to<values_reply>(out, 11).empty());
  core.received(10, set_request{2, "a", "A"}, start_);
  out = core.take();
  ASSERT_EQ(to<values_reply>(out, 11).size(), 1u);
  EXPECT_EQ(to<values_reply>(out, 11)[0].values, (std::vector<std::string>{"A", "B", "A"}));
  EXPECT_FALSE(core.next_deadline());
}

TEST_F(core_test, get_names_the_keys_that_never_came) {
  store_core core(plan());
  meet(core);
  core.received(10, set_request{1, "here", ""}, start_);
  core.received(11, get_request{5, 250, {"x\n", "here", "y"}}, start_);
  core.take();
  core.tick(start_ + milliseconds(250));
  const auto failed = to<failed_reply>(core.take(), 11);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].id, 5u);
  EXPECT_EQ(failed[0].reason.code(), errc::timed_out);
  EXPECT_TRUE(
      has(failed[0].reason.what(), "keys 'x.', 'y' never came to rank 0's store within 0.25 s"));
  core.received(11, get_request{6, 0, {"z"}}, start_);
  EXPECT_EQ(to<failed_reply>(core.take(), 11).size(), 1u);
  EXPECT_FALSE(core.next_deadline());
}

TEST_F(core_test, add_counts_and_refuses_to_overflow) {
  store_core core(plan());
  meet(core);
  core.received(11, add_request{1, "n", 5}, start_);
  core.received(12, add_request{2, "n", -7}, start_);
  auto out = core.take();
  EXPECT_EQ(to<number_reply>(out, 11).at(0).value, 5);
  EXPECT_EQ(to<number_reply>(out, 12).at(0).value, -2);
  core.received(11, add_request{3, "n", std::numeric_limits<std::int64_t>::min()}, start_);
  const auto failed = to<failed_reply>(core.take(), 11);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].reason.code(), errc::limit_exceeded);
  core.received(11, add_request{4, "n", 0}, start_);
  EXPECT_EQ(to<number_reply>(core.take(), 11).at(0).value, -2);
}

TEST_F(core_test, limits_refuse_the_request_and_change_nothing) {
  store_core::plan small = plan();
  small.limits.keys = {
      .keys = 2, .key_bytes = 4, .total_bytes = 20, .reply_bytes = 30, .waits_per_connection = 1};
  store_core core(small);
  meet(core);
  const auto refused = [&](store_request request) {
    core.received(11, std::move(request), start_);
    const auto out = core.take();
    const auto failed = to<failed_reply>(out, 11);
    return failed.size() == 1 && failed[0].reason.code() == errc::limit_exceeded;
  };
  EXPECT_TRUE(refused(set_request{1, "", "v"}));
  EXPECT_TRUE(refused(set_request{1, "12345", "v"}));
  EXPECT_TRUE(refused(set_request{1, "k", std::string(20, 'x')}));
  EXPECT_FALSE(refused(set_request{1, "k", std::string(9, 'x')}));
  EXPECT_FALSE(refused(add_request{1, "n", 1}));
  EXPECT_TRUE(refused(set_request{1, "m", ""}));
  EXPECT_TRUE(refused(add_request{1, "m", 1}));
  EXPECT_TRUE(refused(set_request{1, "k", std::string(12, 'y')}));
  EXPECT_FALSE(refused(get_request{1, 0, {"k"}}));
  EXPECT_TRUE(refused(get_request{1, 0, {"k", "k"}}));
  EXPECT_FALSE(refused(get_request{1, 10, {"no"}}));
  EXPECT_TRUE(refused(get_request{1, 10, {"no"}}));
  core.received(11, get_request{2, 10, {"k"}}, start_);
  EXPECT_EQ(to<values_reply>(core.take(), 11).at(0).values.at(0), std::string(9, 'x'));
}

// --- the end

TEST_F(core_test, a_lost_rank_is_told_once_and_the_first_cause_wins) {
  store_core core(plan());
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
  EXPECT_TRUE(has(to_0[0].reason.what(), "rank 1 is gone"));
  EXPECT_FALSE(core.next_deadline());
  // The second death is no news; what is asked after it fails with the first cause.
  core.closed(12);
  EXPECT_TRUE(core.take().empty());
  core.received(10, get_request{3, 1'000, {"never"}}, start_);
  core.received(10, set_request{4, "k", "v"}, start_);
  const auto failed = to<failed_reply>(core.take(), 10);
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[0].reason.context().peer, 1);
}

TEST_F(core_test, a_report_reaches_all_with_its_words_and_its_blame) {
  store_core core(plan());
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

TEST_F(core_test, a_report_that_blames_nobody_blames_its_rank) {
  store_core core(plan());
  meet(core);
  core.report(0, error(errc::bad_input, "no data"));
  EXPECT_EQ(to<notice_reply>(core.take(), 12).at(0).reason.context().peer, 0);
}

TEST_F(core_test, leaving_is_no_loss) {
  store_core core(plan());
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
  EXPECT_FALSE(core.over());
  core.leave(0);
  EXPECT_EQ(to<leaving_reply>(core.take(), 11).size(), 1u);
  // Those who stay can still ask, and still hear of a death.
  core.received(11, set_request{1, "k", "v"}, start_);
  EXPECT_EQ(to<done_reply>(core.take(), 11).size(), 1u);
  core.received(11, leave_request{}, start_);
  EXPECT_TRUE(core.over());
}

// --- the wire

TEST(store_wire, requests_and_replies_survive_the_wire) {
  tandem::error_context c;
  c.rank = 1;
  c.peer = 2;
  c.rail = "tcp";
  c.phase = "send";
  c.bytes_done = 3;
  c.bytes_total = std::int64_t{1} << 40;
  c.detail = "detail";
  c.advice = "advice";
  const error full(make_error_code(errc::peer_lost), c);
  const auto body = [](const std::string& frame) { return std::string_view(frame).substr(4); };
  const std::string get = encode(store_request(get_request{1, 2, {"a", "", "b"}}));
  const auto got = decode_request(body(get));
  ASSERT_TRUE(got);
  EXPECT_EQ(std::get<get_request>(*got).keys, (std::vector<std::string>{"a", "", "b"}));
  const std::string notice = encode(store_reply(notice_reply{full}));
  const auto heard = decode_reply(body(notice));
  ASSERT_TRUE(heard);
  const error& reason = std::get<notice_reply>(*heard).reason;
  EXPECT_STREQ(reason.what(), full.what());
  EXPECT_EQ(reason.code(), full.code());
  EXPECT_EQ(reason.context().bytes_total, c.bytes_total);
  const error system(tandem::error_code(ECONNRESET, boost::system::system_category()));
  const std::string report = encode(store_request(report_request{system}));
  EXPECT_EQ(std::get<report_request>(*decode_request(body(report))).reason.code(), system.code());
}

TEST(store_wire, long_words_are_cut_and_stay_one_line) {
  const std::string frame =
      encode(store_reply(notice_reply{error(errc::peer_lost, "a\nb" + std::string(5000, 'x'))}));
  EXPECT_LT(frame.size(), 1200u);
  const auto reply = decode_reply(std::string_view(frame).substr(4));
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<notice_reply>(*reply).reason.context().detail.substr(0, 3), "a b");
}

TEST(store_wire, a_cut_frame_is_never_read_as_a_whole_one) {
  const std::vector<std::string> frames{
      encode(store_request(hello_request{1, 2, 3, 4, "job"})),
      encode(store_request(set_request{1, "key", "value"})),
      encode(store_request(get_request{1, 2, {"a", "b"}})),
      encode(store_request(add_request{1, "n", 2})),
      encode(store_request(report_request{error(errc::timed_out, "x")}))};
  for (const std::string& frame : frames) {
    const std::string_view body = std::string_view(frame).substr(4);
    EXPECT_TRUE(decode_request(body));
    for (std::size_t n = 0; n < body.size(); ++n) EXPECT_FALSE(decode_request(body.substr(0, n)));
    EXPECT_FALSE(decode_request(std::string(body) + "x"));
  }
}

TEST(store_wire, false_counts_take_no_memory) {
  std::string body("\x03", 1);  // get
  body += std::string(12, '\0') + "\xff\xff\xff\xff";
  EXPECT_FALSE(decode_request(body));
}

TEST(store_wire, noise_is_read_without_harm) {
  std::mt19937 random(7);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string noise(random() % 60, '\0');
    for (char& c : noise) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 8);
    read += decode_request(noise).has_value() + decode_reply(noise).has_value();
    frame_cutter cutter(100);
    cutter.feed(encode_opening());
    cutter.feed(noise);
    while (cutter.next()) ++read;
    EXPECT_LE(cutter.rest().size(), noise.size());
  }
  EXPECT_GT(read, 0);
}

TEST(frame_cutter, cuts_at_every_boundary) {
  const std::string stream = encode_opening() + encode(store_request(leave_request{})) +
                             encode(store_request(set_request{1, "k", "v"}));
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    frame_cutter cutter(100);
    int frames = 0;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      cutter.feed(std::string_view(stream).substr(at, step));
      while (cutter.next()) ++frames;
    }
    EXPECT_EQ(frames, 2) << step;
    EXPECT_EQ(cutter.at(), frame_cutter::state::open);
    EXPECT_TRUE(cutter.rest().empty());
  }
}

TEST(frame_cutter, knows_strangers_and_other_versions) {
  frame_cutter http(100);
  http.feed("G");
  EXPECT_EQ(http.at(), frame_cutter::state::stranger);
  frame_cutter near(100);
  near.feed("tand");
  EXPECT_EQ(near.at(), frame_cutter::state::opening);
  EXPECT_FALSE(near.silent());
  near.feed("y");
  EXPECT_EQ(near.at(), frame_cutter::state::stranger);
  frame_cutter newer(100);
  newer.feed(encode_opening(0x0102));
  EXPECT_EQ(newer.at(), frame_cutter::state::other_version);
  EXPECT_EQ(newer.version(), 0x0102);
  EXPECT_EQ(encode_opening(0x0102), std::string("tandem\x02\x01"));
}

TEST(frame_cutter, refuses_lengths_beyond_the_limit) {
  for (const std::string& length :
       {std::string(4, '\0'), std::string("\x65\0\0\0", 4), std::string("\xff\xff\xff\xff")}) {
    frame_cutter cutter(100);
    cutter.feed(encode_opening() + length);
    EXPECT_FALSE(cutter.next());
    EXPECT_EQ(cutter.at(), frame_cutter::state::broken);
  }
}

TEST(store_wire, what_came_is_shown_in_one_short_line) {
  EXPECT_EQ(printable("HTTP/1.1 400\r\n"), "HTTP/1.1 400..");
  EXPECT_EQ(printable(std::string(40, 'a')), std::string(32, 'a') + "...");
}

}  // namespace
