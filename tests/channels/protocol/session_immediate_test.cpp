// The immediate path of a short message: from a send with nothing queued before it to a receive
// that is already posted.
#include "channels/protocol/session_fixture.hpp"

namespace tandem::test {
namespace {

struct session_immediate_test : session_test {
  /// The message on the wire completes the receive, on either path.
  void expect_received(scripted& receive, const std::string& text) {
    EXPECT_TRUE(receive.is_over());
    EXPECT_FALSE(receive.result);
    EXPECT_EQ(receive.received(), text);
    EXPECT_EQ(receive.total_bytes, text.size());
  }
};

TEST_F(session_immediate_test, sends_and_completes_immediately) {
  scripted send(kind::send, 1, "hello"), receive(kind::recv, 1, std::string(10, ' '));
  start(1, receive);
  ASSERT_TRUE(pair.send_at_once(0, send));
  EXPECT_TRUE(send.is_over());
  EXPECT_FALSE(send.result);
  EXPECT_EQ(send.bytes, 5u);
  ASSERT_TRUE(pair.deliver_at_once(0));
  expect_received(receive, "hello");
  EXPECT_EQ(pair.end(0).stats().messages_sent, 1u);
  EXPECT_EQ(pair.end(0).stats().bytes_sent, 5u);
  EXPECT_EQ(pair.end(1).stats().messages_received, 1u);
  EXPECT_EQ(pair.end(1).stats().bytes_received, 5u);
  EXPECT_EQ(pair.end(1).stats().unexpected_bytes_peak, 0u);
}

TEST_F(session_immediate_test, an_empty_message) {
  scripted send(kind::send, 1, ""), receive(kind::recv, 1, "");
  start(1, receive);
  ASSERT_TRUE(pair.send_at_once(0, send));
  ASSERT_TRUE(pair.deliver_at_once(0));
  expect_received(receive, "");
}

TEST_F(session_immediate_test, interoperates_with_queued_operations) {
  scripted one(kind::send, 1, "one"), two(kind::send, 1, "two");
  scripted first(kind::recv, 1, "???"), second(kind::recv, 1, "???");
  ASSERT_TRUE(pair.send_at_once(0, one));
  deliver(0);  // unexpected
  start(1, first);
  expect_received(first, "one");
  start(1, second);
  start(0, two);
  EXPECT_EQ(next(0), frame_type::eager);
  ASSERT_TRUE(pair.deliver_at_once(0));
  expect_received(second, "two");
}

TEST_F(session_immediate_test, does_not_overtake_pending_send) {
  scripted waits(kind::send, 2, "first"), send(kind::send, 1, "second");
  start(0, waits);
  EXPECT_FALSE(pair.send_at_once(0, send));
  EXPECT_EQ(send.at, operation::phase::idle);
  EXPECT_EQ(next(0), frame_type::eager);
  EXPECT_TRUE(pair.send_at_once(0, send));
}

TEST_F(session_immediate_test, does_not_overtake_pending_answer) {
  scripted announced(kind::send, 1, std::string(120, 'x')),
      receive(kind::recv, 1, announced.bytes_of);
  scripted back(kind::send, 2, "back");
  start(1, receive);
  start(0, announced);
  EXPECT_EQ(next(0), frame_type::announce);
  deliver(0);
  EXPECT_FALSE(pair.send_at_once(1, back)) << "the accept was not sent";
  EXPECT_EQ(next(1), frame_type::accept);
  EXPECT_TRUE(pair.send_at_once(1, back));
}

TEST_F(session_immediate_test, long_message_is_queued) {
  scripted send(kind::send, 1, std::string(101, 'x'));
  EXPECT_FALSE(pair.send_at_once(0, send));
  EXPECT_TRUE(is_silent(0)) << "half of it has been started";
}

TEST_F(session_immediate_test, stops_without_credits) {
  int sent = 0;
  for (;; ++sent) {
    scripted send(kind::send, 1, std::string(100, 'x'));
    if (!pair.send_at_once(0, send)) break;
    ASSERT_LT(sent, 100) << "more than the flow's kilobyte";
  }
  EXPECT_GT(sent, 4);
  scripted other(kind::send, 2, "another flow");
  EXPECT_TRUE(pair.send_at_once(0, other));
  for (int i = 0; i < sent; ++i) {
    scripted receive(kind::recv, 1, std::string(100, ' '));
    start(1, receive);
    ASSERT_TRUE(pair.deliver_at_once(0));
  }
  scripted answer(kind::send, 1, "and back"), answered(kind::recv, 1, std::string(10, ' '));
  start(0, answered);
  start(1, answer);
  while (pair.write(1) != nullptr) {
  }
  while (!pair.on_wire[1].empty()) deliver(1);
  expect_received(answered, "and back");
  scripted again(kind::send, 1, std::string(100, 'x'));
  EXPECT_TRUE(pair.send_at_once(0, again)) << "the credits came with the answer";
}

TEST_F(session_immediate_test, piggybacks_credits) {
  for (int i = 0; i < 50; ++i) {
    scripted send(kind::send, 1, std::string(100, 'x')), receive(kind::recv, 1, send.bytes_of);
    const int from = i % 2;
    start(1 - from, receive);
    ASSERT_TRUE(pair.send_at_once(from, send)) << "message " << i;
    ASSERT_TRUE(pair.deliver_at_once(from));
  }
  EXPECT_TRUE(is_silent(0) && is_silent(1));
}

TEST_F(session_immediate_test, errors_use_the_queued_path) {
  scripted send(kind::send, 1, "hello"), too_short(kind::recv, 1, "1234");
  start(1, too_short);
  ASSERT_TRUE(pair.send_at_once(0, send));
  EXPECT_FALSE(pair.deliver_at_once(0));
  deliver(0);
  EXPECT_EQ(too_short.result, errc::message_truncated);

  scripted noted(kind::send, 1, "hello"), plain(kind::recv, 1, "12345");
  noted.signature = {7, 7};
  start(1, plain);
  ASSERT_TRUE(pair.send_at_once(0, noted));
  EXPECT_FALSE(pair.deliver_at_once(0));
  deliver(0);
  EXPECT_EQ(plain.result, errc::call_mismatch);
}

TEST_F(session_immediate_test, invalid_credits_are_a_violation) {
  scripted send(kind::send, 1, "hello"), receive(kind::recv, 1, "12345");
  start(1, receive);
  ASSERT_TRUE(pair.send_at_once(0, send));
  pair.on_wire[0].front().header.credit = 99;
  EXPECT_FALSE(pair.deliver_at_once(0));
  EXPECT_FALSE(pair.deliver(0));
  EXPECT_NE(pair.end(1).violation().find("credit"), std::string::npos);
}

TEST_F(session_immediate_test, respects_the_flow_limit) {
  for (flow_id flow = 0; flow < small.max_flows; ++flow) {
    scripted send(kind::send, flow, "x");
    EXPECT_TRUE(pair.send_at_once(0, send)) << flow;
  }
  scripted send(kind::send, 1000, "x");
  EXPECT_FALSE(pair.send_at_once(0, send));
  start(0, send);
  EXPECT_EQ(send.result, errc::limit_exceeded);
}

TEST_F(session_immediate_test, refused_after_failure_or_close) {
  scripted send(kind::send, 1, "x");
  protocol::frame close_frame;
  close_frame.type = frame_type::close;
  EXPECT_TRUE(pair.end(0).handle(close_frame));
  EXPECT_FALSE(pair.send_at_once(0, send));
  pair.end(1).fail(error(errc::peer_lost, "gone"));
  EXPECT_FALSE(pair.send_at_once(1, send));
  EXPECT_EQ(send.at, operation::phase::idle);
}

}  // namespace
}  // namespace tandem::test
