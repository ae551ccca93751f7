// The protocol with many messages: order, waiting and close.

#include <boost/asio/error.hpp>

#include "channels/protocol/session_fixture.hpp"

namespace tandem::test {
namespace {

TEST_F(session_test, chunks_take_turns) {
  scripted a(kind::send, 1, std::string(200, 'a')), b(kind::send, 2, std::string(200, 'b'));
  scripted ra(kind::recv, 1, std::string(200, ' ')), rb(kind::recv, 2, std::string(200, ' '));
  start(1, ra);
  start(1, rb);
  start(0, a);
  start(0, b);
  next(0);
  next(0);
  deliver(0);
  deliver(0);
  next(1);
  next(1);
  deliver(1);
  deliver(1);
  std::string order;
  while (const packet* p = pair.write(0)) order += p->payload[0];
  EXPECT_EQ(order, "abababab");
}

/// The first of two messages of a flow arrives before the second: its receiver goes on meanwhile.
TEST_F(session_test, messages_of_a_flow_do_not_take_turns) {
  scripted a(kind::send, 1, std::string(200, 'a')), b(kind::send, 1, std::string(150, 'b')),
      c(kind::send, 2, std::string(150, 'c'));
  scripted ra(kind::recv, 1, std::string(200, ' ')), rb(kind::recv, 1, std::string(150, ' ')),
      rc(kind::recv, 2, std::string(150, ' '));
  for (scripted* const each : {&ra, &rb, &rc}) start(1, *each);
  for (scripted* const each : {&a, &b, &c}) start(0, *each);
  for (int i = 0; i < 3; ++i) announce_and_accept();
  std::string order;
  while (const packet* p = pair.write(0)) order += p->payload[0];
  EXPECT_EQ(order, "acacacabbb");
}

/// An endless stream of short messages must not starve a long one.
TEST_F(session_test, starts_leave_room_for_chunks) {
  scripted big(kind::send, 1, std::string(200, 'a')), into(kind::recv, 1, std::string(200, ' '));
  start(1, into);
  start(0, big);
  announce_and_accept();
  std::vector<std::unique_ptr<scripted>> all;
  const auto another = [&] {
    all.push_back(std::make_unique<scripted>(kind::recv, 2, std::string(1, ' ')));
    start(1, *all.back());
    all.push_back(std::make_unique<scripted>(kind::send, 2, "s"));
    start(0, *all.back());
  };
  another();
  for (int i = 0; i < 60 && !into.is_over(); ++i) {
    another();
    pair.write(0);
    deliver(0);
    if (pair.write(1) != nullptr) deliver(1);
  }
  EXPECT_TRUE(into.is_over()) << "the long message starved";
}

/// A message of another flow is sent between the two, before the third is started.
TEST_F(session_test, later_sends_stay_behind_waiting_ones) {
  std::vector<std::unique_ptr<scripted>> sends;
  const auto post = [&](flow_id flow, std::size_t bytes) {
    sends.push_back(std::make_unique<scripted>(kind::send, flow, std::string(bytes, 'x')));
    start(0, *sends.back());
  };
  for (std::size_t i = 0; i < 16; ++i) post(1, 101 + i);
  for (int i = 0; i < 16; ++i) next(0);
  post(1, 117);
  post(2, 300);
  post(1, 118);
  next(0);
  post(1, 119);
  pair.deliver_all();
  for (std::size_t i = 0; i < 19; ++i) {
    scripted receive(kind::recv, 1, std::string(200, ' '));
    start(1, receive);
    pair.deliver_all();
    EXPECT_EQ(receive.bytes, 101 + i);
  }
  scripted receive(kind::recv, 2, std::string(300, ' '));
  start(1, receive);
  pair.deliver_all();
}

TEST_F(session_test, seventeenth_announcement_waits_in_order) {
  std::vector<std::unique_ptr<scripted>> sends;
  for (int i = 0; i < 40; ++i) {
    sends.push_back(std::make_unique<scripted>(kind::send, 1, std::string(101 + i, 'x')));
    start(0, *sends.back());
  }
  scripted other(kind::send, 2, std::string(300, 'y'));
  start(0, other);
  int announced = 0;
  while (const packet* p = pair.write(0)) announced += p->header.flow == 1 ? 1 : 0;
  EXPECT_EQ(announced, 16);
  EXPECT_EQ(other.at, operation::phase::announced) << "one full flow held up another";
  cancel(0, *sends[3]);   // announced
  cancel(0, *sends[20]);  // waiting
  scripted late(kind::send, 1, "eager, but last");
  start(0, late);
  pair.deliver_all();
  for (int i = 0; i < 40; ++i) {
    if (i == 3 || i == 20) continue;
    scripted receive(kind::recv, 1, std::string(200, ' '));
    start(1, receive);
    pair.deliver_all();
    EXPECT_EQ(receive.bytes, 101u + static_cast<unsigned>(i));
  }
  scripted receive(kind::recv, 1, std::string(200, ' '));
  start(1, receive);
  pair.deliver_all();
  EXPECT_EQ(receive.received(), "eager, but last");
}

/// The waiting send that is about to start is cancelled: those behind it continue.
TEST_F(session_test, cancel_of_send_about_to_start) {
  std::vector<std::unique_ptr<scripted>> sends;
  for (int i = 0; i < 20; ++i) {
    sends.push_back(std::make_unique<scripted>(kind::send, 1, std::string(101 + i, 'x')));
    start(0, *sends.back());
  }
  while (pair.write(0) != nullptr) {
  }
  while (!pair.on_wire[0].empty()) deliver(0);
  scripted receive(kind::recv, 1, std::string(200, ' '));
  start(1, receive);
  next(1);
  deliver(1);
  cancel(0, *sends[16]);
  pair.deliver_all();
  EXPECT_EQ(sends[17]->at, operation::phase::announced);
  for (const int i : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19}) {
    scripted more(kind::recv, 1, std::string(200, ' '));
    start(1, more);
    pair.deliver_all();
    EXPECT_EQ(more.bytes, 101u + static_cast<unsigned>(i));
  }
}

/// Most are accepted long before their data is sent: message ids must not run out of slots.
TEST_F(session_test, more_moving_messages_than_slots) {
  constexpr int count = 85'000;
  std::vector<std::unique_ptr<scripted>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(std::make_unique<scripted>(kind::recv, 1, std::string(101, ' ')));
    start(1, *all.back());
    all.push_back(std::make_unique<scripted>(kind::send, 1, std::string(101, 'x')));
    start(0, *all.back());
  }
  bool moved = true;
  while (moved) {
    moved = false;
    for (int i = 0; i < 16 && pair.write(0) != nullptr; ++i) moved = true;
    while (!pair.on_wire[0].empty()) {
      ASSERT_TRUE(pair.deliver(0)) << pair.end(1).violation();
    }
    while (pair.write(1) != nullptr) deliver(1);
  }
  for (const auto& op : all) ASSERT_TRUE(op->is_over() && !op->result);
}

TEST_F(session_test, expiry) {
  const auto now = std::chrono::steady_clock::now();
  scripted late(kind::recv, 1, "12345"), patient(kind::recv, 1, "12345");
  scripted later(kind::send, 2, std::string(200, 'x'));
  late.deadline = now + std::chrono::seconds(1);
  later.deadline = now + std::chrono::seconds(2);
  start(1, late);
  start(1, patient);
  start(1, later);
  pair.write(1);
  EXPECT_EQ(pair.end(1).expire(now).next, late.deadline);
  const auto after = pair.end(1).expire(now + std::chrono::milliseconds(1500));
  EXPECT_EQ(late.result, errc::timed_out);
  EXPECT_FALSE(later.is_over());
  EXPECT_EQ(after.next, later.deadline);
  EXPECT_FALSE(after.stuck);
  const auto last = pair.end(1).expire(now + std::chrono::seconds(3));
  EXPECT_EQ(later.result, errc::timed_out);
  EXPECT_GT(last.next, now + std::chrono::seconds(50)) << "the default of the channel: a minute";
  EXPECT_FALSE(patient.is_over());
  EXPECT_EQ(next(1), frame_type::withdraw);
  pair.end(1).expire(now + std::chrono::minutes(2));
  EXPECT_EQ(patient.result, errc::timed_out);
}

TEST_F(session_test, expiry_during_write_waits_for_the_chunk) {
  scripted send(kind::send, 1, std::string(120, 'x')),
      receive(kind::recv, 1, std::string(200, ' '));
  const auto now = std::chrono::steady_clock::now();
  send.deadline = now + std::chrono::seconds(1);
  start(1, receive);
  start(0, send);
  announce_and_accept();
  protocol::outgoing_frame piece;
  ASSERT_TRUE(pair.end(0).next(piece));
  const auto found = pair.end(0).expire(now + std::chrono::seconds(2));
  EXPECT_TRUE(found.stuck);
  EXPECT_GT(found.next, now + std::chrono::seconds(2)) << "a past deadline would spin";
  EXPECT_FALSE(send.is_over());
  pair.end(0).sent(piece);
  EXPECT_EQ(send.result, errc::timed_out);
}

/// A close frame is distinct from frames of flow 0 and does not carry its credits.
TEST_F(session_test, close_after_credits) {
  scripted send(kind::send, 0, "a"), receive(kind::recv, 0, "?");
  scripted back(kind::send, 0, "b"), reply(kind::recv, 0, "?");
  start(1, receive);
  start(0, send);
  pair.deliver_all();
  start(0, reply);
  start(1, back);
  pair.deliver_all();
  protocol::frame close_frame;
  close_frame.type = frame_type::close;
  EXPECT_TRUE(pair.end(0).handle(close_frame)) << pair.end(0).violation();
  EXPECT_TRUE(pair.end(0).received_close());
}

TEST_F(session_test, close_and_failure) {
  scripted sent(kind::send, 1, "before"), receive(kind::recv, 2, "12345"),
      late(kind::recv, 1, "123456");
  scripted send(kind::send, 3, std::string(200, 'x')), refused(kind::send, 3, "x");
  start(0, sent);
  next(0);
  deliver(0);
  start(1, receive);
  start(1, send);
  protocol::frame close_frame;
  close_frame.type = frame_type::close;
  EXPECT_TRUE(pair.end(1).handle(close_frame));
  EXPECT_TRUE(pair.end(1).received_close());
  EXPECT_EQ(receive.result, errc::peer_closed);
  EXPECT_EQ(send.result, errc::peer_closed);
  start(1, late);
  EXPECT_EQ(late.received(), "before");
  start(1, refused);
  EXPECT_EQ(refused.result, errc::peer_closed);
  EXPECT_TRUE(is_silent(1));
  pair.end(1).fail(error(errc::peer_lost, "rank 0 is gone"));
  pair.end(1).fail(error(errc::channel_closed, {}));
  scripted after(kind::recv, 1, "x");
  start(1, after);
  EXPECT_EQ(after.result, errc::peer_lost);
  ASSERT_TRUE(after.failure);
  EXPECT_EQ(std::string(after.failure->what()).find("rank 0 is gone (rank 1, peer rank 0, wire"),
            0u)
      << after.failure->what();
  pair.forget_done(1);
}

}  // namespace
}  // namespace tandem::test
