// Views that are still accessed after their operation has completed, and messages whose last chunk
// is still landing when their slot is reused.

#include "support/session_pair.hpp"

namespace tandem::test {
namespace {

using protocol::session;

protocol::limits small_limits() {
  protocol::limits l;
  l.eager_bytes = 4;
  l.chunk_bytes = 1024;
  return l;
}

/// A sender, and a receiver whose chunks may land in any order.
struct any_order {
  session sender{
      small_limits(), {0, 1, "wire"}, std::chrono::minutes(1), protocol::chunk_order::any};
  session receiver{
      small_limits(), {1, 0, "wire"}, std::chrono::minutes(1), protocol::chunk_order::any};

  /// All frames of the sender; the landing of the last `data` frame stays open.
  void begin_only(protocol::incoming_payload& where) {
    protocol::outgoing_frame out;
    while (sender.next(out)) {
      if (out.header.type == protocol::frame_type::data) {
        ASSERT_TRUE(receiver.begin(out.header, where)) << receiver.violation();
        sender.sent(out);
        continue;
      }
      ASSERT_TRUE(receiver.handle(out.header)) << receiver.violation();
      while (receiver.next(out)) ASSERT_TRUE(sender.handle(out.header));
    }
  }
};

TEST(session_pins, operation_completes_with_its_last_pin) {
  any_order ends;
  scripted receive(operation::kind::recv, 0, "....");
  ends.receiver.start(receive);
  ends.receiver.pin(receive);
  ends.receiver.pin(receive);
  ends.receiver.cancel(receive);
  EXPECT_TRUE(receive.is_over());
  EXPECT_FALSE(ends.receiver.take_if_done(receive));
  ends.receiver.unpin(receive);
  EXPECT_FALSE(ends.receiver.has_done());
  ends.receiver.unpin(receive);
  EXPECT_EQ(ends.receiver.pop_done(), &receive);
}

TEST(session_pins, destroyed_loop_releases_pinned_operations) {
  any_order ends;
  scripted receive(operation::kind::recv, 0, "....");
  ends.receiver.start(receive);
  ends.receiver.pin(receive);
  ends.receiver.fail(error(errc::channel_closed, ""));
  EXPECT_EQ(ends.receiver.pop_done(), nullptr);
  EXPECT_EQ(ends.receiver.pop_any(), &receive);
}

TEST(session_pins, late_landing_failure_fails_the_operation) {
  any_order ends;
  scripted receive(operation::kind::recv, 0, "....");
  ends.receiver.start(receive);
  ends.receiver.pin(receive);
  scripted send(operation::kind::send, 0, "text");
  ends.sender.start(send);
  protocol::outgoing_frame out;
  ASSERT_TRUE(ends.sender.next(out));
  protocol::incoming_payload where;
  ASSERT_TRUE(ends.receiver.begin(out.header, where));
  ends.receiver.end(where);
  EXPECT_TRUE(receive.is_over());
  EXPECT_FALSE(receive.result);
  ends.receiver.fail_payload(receive, error(errc::device_failed, "the engine is on fire"));
  ends.receiver.unpin(receive);
  EXPECT_EQ(ends.receiver.pop_done(), &receive);
  EXPECT_EQ(receive.result, errc::device_failed);
  ASSERT_TRUE(receive.failure);
  EXPECT_NE(std::string(receive.failure->what()).find("on fire"), std::string::npos);
}

TEST(session_pins, slot_is_reusable_while_last_message_lands) {
  any_order ends;
  scripted first(operation::kind::send, 0, "a first"), second(operation::kind::send, 0, "a second");
  scripted one(operation::kind::recv, 0, "........"), two(operation::kind::recv, 0, "........");
  ends.receiver.start(one);
  ends.receiver.start(two);
  protocol::incoming_payload of_first, of_second;
  ends.sender.start(first);
  ends.begin_only(of_first);
  EXPECT_TRUE(first.is_over());
  ends.sender.start(second);
  ends.begin_only(of_second);
  EXPECT_EQ(of_first.header.message_id & 0xffff, of_second.header.message_id & 0xffff);
  ends.receiver.end(of_second);
  EXPECT_TRUE(two.is_over());
  EXPECT_FALSE(one.is_over());
  ends.receiver.end(of_first);
  EXPECT_TRUE(one.is_over());
  EXPECT_EQ(one.bytes, 7u);
}

TEST(session_pins, slot_is_held_until_all_chunks_have_begun) {
  any_order ends;
  scripted receive(operation::kind::recv, 0, "........"), send(operation::kind::send, 0, "a first");
  ends.receiver.start(receive);
  ends.sender.start(send);
  protocol::outgoing_frame out;
  ASSERT_TRUE(ends.sender.next(out));
  ASSERT_TRUE(ends.receiver.handle(out.header));
  out.header.message_id += 1 << 16;
  EXPECT_FALSE(ends.receiver.handle(out.header));
  EXPECT_NE(ends.receiver.violation().find("a slot that is in use"), std::string::npos);
}

TEST(session_pins, unread_payload_fails_the_peer) {
  any_order ends;
  scripted send(operation::kind::send, 0, "text"), receive(operation::kind::recv, 0, "....");
  ends.sender.start(send);
  protocol::outgoing_frame out;
  ASSERT_TRUE(ends.sender.next(out));
  ends.sender.fail_payload(out, error(errc::device_failed, "the engine is on fire"));
  EXPECT_EQ(send.result, errc::device_failed);
  protocol::incoming_payload where;
  ASSERT_TRUE(ends.receiver.begin(out.header, where));
  ends.receiver.mark_unreadable(where);
  ends.receiver.start(receive);
  EXPECT_EQ(receive.result, errc::message_cancelled);
  EXPECT_EQ(ends.receiver.stats().unexpected_bytes, 0u);
}

}  // namespace
}  // namespace tandem::test
