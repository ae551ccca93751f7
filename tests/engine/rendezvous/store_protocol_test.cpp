#include "rendezvous/store_protocol.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tandem::rendezvous;
using tandem::errc;
using tandem::error;

TEST(store_wire, requests_and_replies_round_trip) {
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
  const auto decoded = decode_reply(body(notice));
  ASSERT_TRUE(decoded);
  const error& reason = std::get<notice_reply>(*decoded).reason;
  EXPECT_STREQ(reason.what(), full.what());
  EXPECT_EQ(reason.code(), full.code());
  EXPECT_EQ(reason.context().bytes_total, c.bytes_total);
  const error system(tandem::error_code(ECONNRESET, boost::system::system_category()));
  const std::string report = encode(store_request(report_request{system}));
  EXPECT_EQ(std::get<report_request>(*decode_request(body(report))).reason.code(), system.code());
}

TEST(store_wire, long_texts_are_truncated_to_one_line) {
  const std::string frame =
      encode(store_reply(notice_reply{error(errc::peer_lost, "a\nb" + std::string(5000, 'x'))}));
  EXPECT_LT(frame.size(), 1200u);
  const auto reply = decode_reply(std::string_view(frame).substr(4));
  ASSERT_TRUE(reply);
  EXPECT_EQ(std::get<notice_reply>(*reply).reason.context().detail.substr(0, 3), "a b");
}

TEST(store_wire, truncated_frame_is_refused) {
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

TEST(store_wire, false_counts_allocate_no_memory) {
  std::string body("\x03", 1);  // get
  body += std::string(12, '\0') + "\xff\xff\xff\xff";
  EXPECT_FALSE(decode_request(body));
}

TEST(store_wire, random_bytes_are_safe) {
  std::mt19937 random(7);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string noise(random() % 60, '\0');
    for (char& c : noise) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 8);
    read += decode_request(noise).has_value() + decode_reply(noise).has_value();
    frame_splitter splitter(100);
    splitter.feed(encode_opening());
    splitter.feed(noise);
    while (splitter.next()) ++read;
    EXPECT_LE(splitter.rest().size(), noise.size());
  }
  EXPECT_GT(read, 0);
}

TEST(frame_splitter, cuts_at_every_boundary) {
  const std::string stream = encode_opening() + encode(store_request(leave_request{})) +
                             encode(store_request(set_request{1, "k", "v"}));
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    frame_splitter splitter(100);
    int frames = 0;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      splitter.feed(std::string_view(stream).substr(at, step));
      while (splitter.next()) ++frames;
    }
    EXPECT_EQ(frames, 2) << step;
    EXPECT_EQ(splitter.at(), frame_splitter::state::open);
    EXPECT_TRUE(splitter.rest().empty());
  }
}

TEST(frame_splitter, detects_other_programs_and_versions) {
  frame_splitter http(100);
  http.feed("G");
  EXPECT_EQ(http.at(), frame_splitter::state::foreign);
  frame_splitter near(100);
  near.feed("tand");
  EXPECT_EQ(near.at(), frame_splitter::state::opening);
  EXPECT_FALSE(near.silent());
  near.feed("y");
  EXPECT_EQ(near.at(), frame_splitter::state::foreign);
  frame_splitter newer(100);
  newer.feed(encode_opening(0x0102));
  EXPECT_EQ(newer.at(), frame_splitter::state::other_version);
  EXPECT_EQ(newer.version(), 0x0102);
  EXPECT_EQ(encode_opening(0x0102), std::string("tandem\x02\x01"));
}

TEST(frame_splitter, refuses_lengths_beyond_the_limit) {
  for (const std::string& length :
       {std::string(4, '\0'), std::string("\x65\0\0\0", 4), std::string("\xff\xff\xff\xff")}) {
    frame_splitter splitter(100);
    splitter.feed(encode_opening() + length);
    EXPECT_FALSE(splitter.next());
    EXPECT_EQ(splitter.at(), frame_splitter::state::broken);
  }
}

TEST(store_wire, received_bytes_are_shown_in_one_line) {
  EXPECT_EQ(printable("HTTP/1.1 400\r\n"), "HTTP/1.1 400..");
  EXPECT_EQ(printable(std::string(40, 'a')), std::string(32, 'a') + "...");
}

}  // namespace
