// Data frames that carry several chunks, in order and in any order.
#include <boost/asio/error.hpp>

#include "channels/protocol/session_fixture.hpp"

namespace tandem::test {
namespace {

struct session_coalesced_test : session_test {
  /// Chunks of 50 bytes: the last one has 20.
  const std::string text = [] {
    std::string made(220, ' ');
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>('a' + i % 23);
    return made;
  }();
  scripted send{kind::send, 1, text};
  scripted receive{kind::recv, 1, std::string(220, ' ')};

  void SetUp() override {
    pair.ends[1] = std::make_unique<protocol::session>(
        small, protocol::identity{1, 0, "wire"}, session_pair::minute, protocol::chunk_order::any);
    start(1, receive);
    start(0, send);
    announce_and_accept();
  }

  /// The next frame with chunks coalesced up to this many bytes. False if there is none.
  bool give(protocol::outgoing_frame& out, std::uint64_t most_bytes) {
    if (!pair.end(0).next(out)) return false;
    pair.end(0).coalesce_chunks(out, most_bytes);
    return true;
  }
  packet leave(const protocol::outgoing_frame& out) {
    packet p{out.header, {}};
    p.payload.assign(static_cast<const char*>(out.payload.data), out.payload.bytes);
    pair.end(0).sent(out);
    pair.forget_done(0);
    return p;
  }
  bool arrive(const packet& p) {
    const bool good = pair.deliver(0, p);
    pair.forget_done(1);
    return good;
  }
};

TEST_F(session_coalesced_test, whole_message_in_one_frame) {
  protocol::outgoing_frame out;
  ASSERT_TRUE(give(out, 1000));
  EXPECT_EQ(out.header.payload_bytes, 220u);
  EXPECT_EQ(out.payload.bytes, 220u);
  EXPECT_TRUE(is_silent(0));
  EXPECT_EQ(pair.end(0).accepted_bytes_left(), 0u);
  const packet p = leave(out);
  EXPECT_TRUE(send.is_over());
  EXPECT_EQ(send.bytes, 220u);
  ASSERT_TRUE(arrive(p)) << pair.end(1).violation();
  EXPECT_EQ(receive.received(), text);
}

TEST_F(session_coalesced_test, whole_chunks_in_any_order) {
  protocol::outgoing_frame out;
  std::vector<packet> all;
  while (give(out, 110)) all.push_back(leave(out));
  ASSERT_EQ(all.size(), 3u);  // 100, 100 and 20
  EXPECT_EQ(all[0].header.payload_bytes, 100u);
  EXPECT_EQ(all[1].header.offset, 100u);
  EXPECT_EQ(all[2].header.payload_bytes, 20u);
  for (const std::size_t i : {2u, 0u, 1u}) ASSERT_TRUE(arrive(all[i])) << pair.end(1).violation();
  EXPECT_EQ(receive.received(), text);
}

TEST_F(session_coalesced_test, single_chunk_where_no_other_fits) {
  protocol::outgoing_frame out;
  ASSERT_TRUE(give(out, 99));
  EXPECT_EQ(out.header.payload_bytes, 50u);
}

TEST_F(session_coalesced_test, other_messages_keep_their_turns) {
  scripted other(kind::send, 2, std::string(150, 'y')), into(kind::recv, 2, std::string(150, ' '));
  start(1, into);
  start(0, other);
  const packet* announced = pair.write(0);
  while (announced != nullptr && announced->header.type != frame_type::announce) {
    announced = pair.write(0);  // chunks of the first message
  }
  ASSERT_NE(announced, nullptr);
  while (!pair.on_wire[0].empty()) deliver(0);
  EXPECT_EQ(next(1), frame_type::accept);
  deliver(1);
  protocol::outgoing_frame out;
  std::uint64_t first = 0, second = 0;
  while (give(out, 1000)) {
    (out.op == &send ? first : second) += out.header.payload_bytes;
    ASSERT_TRUE(arrive(leave(out)));
  }
  EXPECT_EQ(second, 150u);
  EXPECT_EQ(receive.received(), text) << first;
  EXPECT_EQ(into.received(), other.bytes_of);
}

TEST_F(session_coalesced_test, duplicates_and_partial_chunks_are_refused) {
  protocol::outgoing_frame out;
  ASSERT_TRUE(give(out, 100));
  packet p = leave(out);
  ASSERT_TRUE(arrive(p));
  packet again = p;
  again.header.offset = 50;  // half of it is new
  EXPECT_FALSE(arrive(again));
}

TEST_F(session_coalesced_test, partial_chunk_is_refused) {
  packet p;
  p.header.type = frame_type::data;
  p.header.flow = 1;
  protocol::outgoing_frame out;
  ASSERT_TRUE(give(out, 50));
  p = leave(out);
  p.payload.resize(30);
  p.header.payload_bytes = 30;
  EXPECT_FALSE(arrive(p));
}

/// An incorrect peer: the first landing to end completes the message, the other finds nothing.
TEST_F(session_coalesced_test, same_chunks_begun_twice_are_tolerated) {
  protocol::outgoing_frame out;
  ASSERT_TRUE(give(out, 1000));
  const packet p = leave(out);
  protocol::incoming_payload one, two;
  protocol::session& to = pair.end(1);
  ASSERT_TRUE(to.begin(p.header, one));
  if (!to.begin(p.header, two)) return;
  to.end(one);
  to.end(two);
  pair.forget_done(1);
  EXPECT_TRUE(receive.is_over());
}

TEST_F(session_coalesced_test, cancelled_send_withdraws_when_idle) {
  protocol::outgoing_frame out;
  ASSERT_TRUE(give(out, 100));
  pair.end(0).cancel(send);
  EXPECT_FALSE(send.is_over()) << "what is being written is still its view";
  protocol::outgoing_frame other = out;
  pair.end(0).coalesce_chunks(other, 1000);
  EXPECT_EQ(other.header.payload_bytes, 100u) << "nothing more of a cancelled message is sent";
  pair.end(0).sent(out);
  EXPECT_EQ(send.result, boost::asio::error::operation_aborted);
  pair.forget_done(0);
  EXPECT_EQ(next(0), frame_type::withdraw);
  deliver(0);
  EXPECT_EQ(receive.result, errc::message_cancelled);
}

TEST_F(session_coalesced_test, read_failure_fails_the_message_once) {
  protocol::outgoing_frame out;
  ASSERT_TRUE(give(out, 1000));
  pair.end(0).fail_payload(out, error(errc::device_failed, "unplugged"));
  pair.forget_done(0);
  EXPECT_EQ(send.result, errc::device_failed);
  EXPECT_EQ(next(0), frame_type::withdraw);
  EXPECT_TRUE(is_silent(0));
}

}  // namespace
}  // namespace tandem::test
