// The protocol step by step: the sequence of frames.

#include <boost/asio/error.hpp>

#include "channels/protocol/session_fixture.hpp"

namespace tandem::test {
namespace {

TEST_F(session_test, eager_message) {
  scripted send(kind::send, 1, "hello"), receive(kind::recv, 1, std::string(10, ' '));
  start(0, send);
  EXPECT_EQ(next(0), frame_type::eager);
  EXPECT_TRUE(send.is_over());
  EXPECT_TRUE(is_silent(0));
  deliver(0);
  EXPECT_EQ(pair.end(1).stats().unexpected_bytes, 5u);
  start(1, receive);
  EXPECT_TRUE(receive.is_over());
  EXPECT_EQ(receive.received(), "hello");
  EXPECT_EQ(pair.end(1).stats().unexpected_bytes, 0u);
}

TEST_F(session_test, announced_message) {
  const std::string text(120, 'x');
  scripted send(kind::send, 1, text), receive(kind::recv, 1, std::string(200, ' '));
  start(0, send);
  EXPECT_EQ(next(0), frame_type::announce);
  EXPECT_EQ(send.at, operation::phase::announced);
  EXPECT_TRUE(is_silent(0)) << "data before the accept";
  deliver(0);
  EXPECT_TRUE(is_silent(1)) << "accepted without a receive";
  start(1, receive);
  EXPECT_EQ(receive.at, operation::phase::moving);
  EXPECT_EQ(next(1), frame_type::accept);
  deliver(1);
  for (const std::uint32_t index : {0u, 1u, 2u}) {
    const packet* p = pair.write(0);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(p->header.type, frame_type::data);
    EXPECT_EQ(p->header.chunk_index, index);
    EXPECT_EQ(p->header.chunk_count, 3u);
    EXPECT_EQ(p->header.offset, index * 50u);
    EXPECT_EQ(p->header.payload_bytes, index == 2 ? 20u : 50u);
  }
  EXPECT_TRUE(send.is_over());
  for (int i = 0; i < 3; ++i) deliver(0);
  EXPECT_EQ(receive.received(), text);
  EXPECT_TRUE(is_silent(0) && is_silent(1));
}

TEST_F(session_test, message_for_several_lanes_states_chunk_size) {
  protocol::limits cut = small;
  cut.piece_bytes = 10;
  pair = session_pair(cut);
  pair.end(0).set_lane_count(2);
  const std::string text(111, 'x');
  scripted send(kind::send, 1, text), receive(kind::recv, 1, std::string(200, ' '));
  start(1, receive);
  start(0, send);
  const packet* announced = pair.write(0);
  ASSERT_NE(announced, nullptr);
  EXPECT_EQ(announced->header.chunk_bytes, 30u);
  pair.end(0).set_lane_count(1);  // the announced length stays
  deliver(0);
  EXPECT_EQ(next(1), frame_type::accept);
  deliver(1);
  EXPECT_EQ(pair.end(0).upcoming_chunk_bytes(), 30u);
  for (const std::uint32_t index : {0u, 1u, 2u, 3u}) {
    const packet* p = pair.write(0);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(p->header.chunk_count, 4u);
    EXPECT_EQ(p->header.offset, index * 30u);
    EXPECT_EQ(p->header.payload_bytes, index == 3 ? 21u : 30u);
    deliver(0);
  }
  EXPECT_TRUE(send.is_over());
  EXPECT_EQ(receive.received(), text);
}

TEST_F(session_test, invalid_chunk_length_is_a_violation) {
  protocol::limits cut = small;
  cut.piece_bytes = 10;
  for (const std::uint32_t bytes : {1u, 9u, 51u, ~0u}) {
    pair = session_pair(cut);
    protocol::frame hostile;
    hostile.type = frame_type::announce;
    hostile.flow = 1;
    hostile.message_id = 1 << 16;
    hostile.offset = 200;
    hostile.chunk_bytes = bytes;
    EXPECT_FALSE(pair.end(1).handle(hostile)) << bytes;
    EXPECT_NE(pair.end(1).violation().find("invalid chunk size"), std::string::npos);
  }
}

TEST_F(session_test, credits_of_a_flow_are_exhausted_and_returned) {
  std::vector<std::unique_ptr<scripted>> sends;
  for (int i = 0; i < 8; ++i) {  // 164 bytes of credit each, so six of them
    sends.push_back(std::make_unique<scripted>(kind::send, 1, std::string(100, 'a')));
    start(0, *sends.back());
  }
  for (int i = 0; i < 6; ++i) EXPECT_EQ(next(0), frame_type::eager) << i;
  EXPECT_EQ(next(0), frame_type::announce);
  EXPECT_EQ(next(0), frame_type::announce);
  // Another flow has its own credits.
  scripted other(kind::send, 2, "b");
  start(0, other);
  EXPECT_EQ(next(0), frame_type::eager);
  while (!pair.on_wire[0].empty()) deliver(0);
  // Consumed credits are returned in their own frame once a quarter of a flow's are due.
  scripted first(kind::recv, 1, std::string(100, ' ')),
      second(kind::recv, 1, std::string(100, ' '));
  start(1, first);
  EXPECT_TRUE(is_silent(1));
  start(1, second);
  const packet* p = pair.write(1);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->header.type, frame_type::credit);
  EXPECT_EQ(p->header.flow, 1u);
  EXPECT_EQ(p->header.credit, 2 * 164u);
  EXPECT_TRUE(is_silent(1));
  deliver(1);
  scripted again(kind::send, 1, std::string(100, 'c'));
  start(0, again);
  EXPECT_EQ(next(0), frame_type::eager);
}

TEST_F(session_test, credits_are_piggybacked) {
  scripted send(kind::send, 1, "hello"), receive(kind::recv, 1, std::string(10, ' '));
  start(0, send);
  next(0);
  deliver(0);
  start(1, receive);
  scripted back(kind::send, 1, "thanks");
  start(1, back);
  const packet* p = pair.write(1);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->header.type, frame_type::eager);
  EXPECT_EQ(p->header.credit, 5u + 64u);
  deliver(1);
}

TEST_F(session_test, credits_of_all_flows_together) {
  std::vector<std::unique_ptr<scripted>> sends;
  for (flow_id flow = 0; flow < 8; ++flow) {
    for (int i = 0; i < 6; ++i) {
      sends.push_back(std::make_unique<scripted>(kind::send, flow, std::string(100, 'a')));
      start(0, *sends.back());
    }
  }
  int eager = 0;
  while (const packet* p = pair.write(0)) eager += p->header.type == frame_type::eager ? 1 : 0;
  EXPECT_EQ(eager, 4096 / 164);
  while (!pair.on_wire[0].empty()) deliver(0);
  EXPECT_LE(pair.end(1).stats().unexpected_bytes_peak, 4096u);
}

TEST_F(session_test, refusal) {
  scripted send(kind::send, 1, std::string(120, 'x')), receive(kind::recv, 1, std::string(7, ' '));
  start(1, receive);
  start(0, send);
  next(0);
  deliver(0);
  EXPECT_TRUE(receive.is_over());
  EXPECT_EQ(receive.result, errc::message_truncated);
  EXPECT_EQ(receive.total_bytes, 120u);
  EXPECT_EQ(next(1), frame_type::refuse);
  deliver(1);
  EXPECT_TRUE(send.is_over());
  EXPECT_EQ(send.result, errc::message_truncated);
  EXPECT_TRUE(is_silent(0) && is_silent(1));
}

TEST_F(session_test, withdrawal_before_a_receive) {
  scripted send(kind::send, 1, std::string(120, 'x')),
      receive(kind::recv, 1, std::string(200, ' '));
  start(0, send);
  next(0);
  deliver(0);
  cancel(0, send);
  EXPECT_EQ(send.result, boost::asio::error::operation_aborted);
  EXPECT_EQ(next(0), frame_type::withdraw);
  deliver(0);
  start(1, receive);
  EXPECT_FALSE(receive.is_over());
  EXPECT_TRUE(is_silent(1));
  scripted next_one(kind::send, 1, "next");
  start(0, next_one);
  pair.deliver_all();
  EXPECT_EQ(receive.received(), "next");
}

TEST_F(session_test, withdrawal_crosses_an_accept) {
  scripted send(kind::send, 1, std::string(120, 'x')),
      receive(kind::recv, 1, std::string(200, ' '));
  start(0, send);
  next(0);
  deliver(0);
  start(1, receive);
  EXPECT_EQ(next(1), frame_type::accept);
  cancel(0, send);
  EXPECT_EQ(next(0), frame_type::withdraw);
  deliver(1);  // the accept finds no message, which is valid
  EXPECT_TRUE(is_silent(0));
  deliver(0);
  EXPECT_EQ(receive.result, errc::message_cancelled);
}

TEST_F(session_test, withdrawal_crosses_a_refusal) {
  scripted send(kind::send, 1, std::string(120, 'x')), receive(kind::recv, 1, std::string(7, ' '));
  start(1, receive);
  start(0, send);
  next(0);
  deliver(0);
  EXPECT_EQ(next(1), frame_type::refuse);
  cancel(0, send);
  EXPECT_EQ(next(0), frame_type::withdraw);
  deliver(0);
  deliver(1);
  EXPECT_EQ(send.result, boost::asio::error::operation_aborted);
  EXPECT_TRUE(is_silent(0) && is_silent(1));
}

/// The slot of a withdrawn message is reused before the peer's stale answer arrives.
TEST_F(session_test, stale_answer_does_not_match_new_message) {
  scripted old(kind::send, 1, std::string(120, 'x')), later(kind::send, 2, std::string(130, 'y'));
  scripted receive(kind::recv, 1, std::string(200, ' '));
  start(0, old);
  next(0);
  deliver(0);
  start(1, receive);
  EXPECT_EQ(next(1), frame_type::accept);
  cancel(0, old);
  start(0, later);
  EXPECT_EQ(next(0), frame_type::withdraw);
  const packet* p = pair.write(0);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->header.type, frame_type::announce);
  deliver(1);
  EXPECT_TRUE(is_silent(0)) << "the later one was not accepted";
  EXPECT_EQ(later.at, operation::phase::announced);
}

TEST_F(session_test, withdrawal_in_mid_message_follows_current_chunk) {
  scripted send(kind::send, 1, std::string(120, 'x')),
      receive(kind::recv, 1, std::string(200, ' '));
  start(1, receive);
  start(0, send);
  announce_and_accept();
  protocol::outgoing_frame piece;
  ASSERT_TRUE(pair.end(0).next(piece));
  EXPECT_EQ(piece.header.type, frame_type::data);
  pair.end(0).cancel(send);
  EXPECT_FALSE(send.is_over()) << "its bytes are still being written";
  EXPECT_TRUE(is_silent(0));
  pair.end(0).sent(piece);
  EXPECT_TRUE(send.is_over());
  EXPECT_EQ(send.bytes, 50u);
  EXPECT_EQ(next(0), frame_type::withdraw);
  EXPECT_TRUE(pair.deliver(0, {piece.header, std::string(50, 'x')}));
  deliver(0);
  EXPECT_EQ(receive.result, errc::message_cancelled);
  EXPECT_EQ(receive.bytes, 50u);
}

TEST_F(session_test, last_chunk_is_not_withdrawn) {
  scripted send(kind::send, 1, std::string(101, 'x')),
      receive(kind::recv, 1, std::string(101, ' '));
  start(1, receive);
  start(0, send);
  announce_and_accept();
  pair.write(0);
  pair.write(0);
  protocol::outgoing_frame last;
  ASSERT_TRUE(pair.end(0).next(last));
  pair.end(0).cancel(send);
  pair.end(0).sent(last);
  EXPECT_TRUE(send.is_over());
  EXPECT_FALSE(send.result) << "all its bytes have been sent";
  EXPECT_TRUE(is_silent(0));
}

TEST_F(session_test, cancelled_receive_discards_the_rest) {
  scripted send(kind::send, 1, std::string(120, 'x')),
      receive(kind::recv, 1, std::string(200, ' '));
  start(1, receive);
  start(0, send);
  announce_and_accept();
  next(0);
  deliver(0);
  cancel(1, receive);
  EXPECT_TRUE(receive.is_over());
  EXPECT_EQ(receive.bytes, 50u);
  const std::string so_far = receive.bytes_of;
  pair.deliver_all();
  EXPECT_FALSE(send.result);
  EXPECT_EQ(receive.bytes_of, so_far);
}

/// A receive that is posted while its message is still arriving as an unexpected message.
TEST_F(session_test, receive_meets_a_message_that_is_arriving) {
  scripted send(kind::send, 1, "hello"), first(kind::recv, 1, std::string(10, ' '));
  scripted second(kind::recv, 1, std::string(10, ' ')), after(kind::send, 1, "world");
  start(0, send);
  next(0);
  const packet p = pair.on_wire[0].front();
  pair.on_wire[0].pop_front();
  for (const bool cancelled : {false, true}) {
    session_pair fresh(small);
    protocol::incoming_payload where;
    ASSERT_TRUE(fresh.end(1).begin(p.header, where));
    fresh.start(1, first);
    fresh.start(1, second);
    EXPECT_FALSE(first.is_over());
    if (cancelled) fresh.end(1).cancel(first);
    ASSERT_NE(where.target, nullptr);
    std::memcpy(where.target, p.payload.data(), 5);
    fresh.end(1).end(where);
    EXPECT_TRUE(first.is_over());
    EXPECT_EQ(first.result,
              cancelled ? error_code(boost::asio::error::operation_aborted) : error_code());
    if (!cancelled) {
      EXPECT_EQ(first.received(), "hello");
    }
    EXPECT_FALSE(second.is_over()) << "it has no message yet";
    EXPECT_EQ(fresh.end(1).stats().unexpected_bytes, 0u);
    fresh.end(1).fail(error(errc::channel_closed, {}));
    fresh.forget_done(1);
  }
}

}  // namespace
}  // namespace tandem::test
