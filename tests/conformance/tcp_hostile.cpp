// Protocol violations after a valid hello: the channel ends with an error that describes what came,
// and nothing else is affected.

#include <boost/asio/use_awaitable.hpp>

#include "conformance/raw_peer.hpp"
#include "support/channel_case.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

using protocol::frame;
using protocol::frame_type;

std::string wire(const frame& f) {
  protocol::wire_frame bytes;
  protocol::encode(f, bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

frame of_type(frame_type type) {
  frame f;
  f.type = type;
  return f;
}

std::string repeated(int count, std::string (*make)(int index)) {
  std::string all;
  for (int i = 0; i < count; ++i) all += make(i);
  return all;
}

std::string announcement(std::uint64_t id, flow_id flow, std::uint64_t bytes) {
  frame f = of_type(frame_type::announce);
  f.message_id = id;
  f.flow = flow;
  f.offset = bytes;
  return wire(f);
}

std::string eager(flow_id flow, std::size_t bytes) {
  frame f = of_type(frame_type::eager);
  f.flow = flow;
  f.payload_bytes = static_cast<std::uint32_t>(bytes);
  return wire(f) + std::string(bytes, 'e');
}

struct attack {
  std::string name;
  std::string bytes;
  std::string expected_text;
};

std::vector<attack> hostile_frames() {
  std::vector<attack> all;
  all.push_back({"bad_magic", std::string(64, 'x'), "a frame starts with 0x78787878"});
  std::string damaged = wire(of_type(frame_type::credit));
  damaged[20] ^= 1;
  all.push_back({"bad_checksum", damaged, "checksum is wrong"});
  all.push_back({"unknown_type", wire(of_type(static_cast<frame_type>(99))), "unknown type 99"});
  all.push_back({"eager_too_long", eager(1, 257), "257 bytes beyond the credits of flow 1"});
  all.push_back({"eager_beyond_credits", repeated(16, [](int) { return eager(1, 200); }),
                 "200 bytes beyond the credits of flow 1"});
  frame data = of_type(frame_type::data);
  data.message_id = 0x10000;
  data.payload_bytes = 10;
  all.push_back({"data_never_asked_for", wire(data) + "0123456789", "unexpected data of message"});
  const auto one_more = [](int i) { return announcement((i + 1) << 16 | i, 1, 1000); };
  all.push_back({"too_many_announcements", repeated(17, one_more), "beyond the limits on flow 1"});
  all.push_back({"announcement_too_long", announcement(0x10000, 1, std::uint64_t{1} << 41),
                 "beyond the limits on flow 1"});
  all.push_back({"slot_taken", announcement(0x10000, 1, 9) + announcement(0x20000, 1, 9),
                 "a slot that is in use"});
  const auto flow_by_flow = [](int i) { return eager(static_cast<flow_id>(i), 0); };
  all.push_back({"too_many_flows", repeated(129, flow_by_flow), "flow 127"});
  frame accept = of_type(frame_type::accept);
  accept.message_id = 7 << 16;
  all.push_back({"accept_of_nothing", wire(accept), "an accept for a message"});
  frame refuse = of_type(frame_type::refuse);
  refuse.message_id = 7 << 16;
  all.push_back({"refusal_of_nothing", wire(refuse), "a refusal of a message"});
  frame loaded = of_type(frame_type::credit);
  loaded.payload_bytes = 5;
  all.push_back({"payload_on_control_frame", wire(loaded) + "12345", "with 5 payload bytes"});
  frame credit = of_type(frame_type::credit);
  credit.credit = 1000;
  all.push_back({"credit_never_used", wire(credit), "credit of 1000 on flow 0"});
  frame withdraw = of_type(frame_type::withdraw);
  withdraw.message_id = 0x10000;
  withdraw.flow = 2;
  all.push_back({"withdrawal_on_another_flow", announcement(0x10000, 1, 9) + wire(withdraw),
                 "withdrawn on flow 2"});
  return all;
}

class hostile_bytes : public testing::TestWithParam<attack> {};

awaitable<void> run_attack(attack by) {
  hostile_pair pair = co_await connect_hostile(small_settings());
  std::vector<std::byte> into(100);
  background receiver(pair.end->get_executor(), pair.end->recv(1000, into));
  const std::vector<std::byte> message = pattern(5000, 1);
  background sender(pair.end->get_executor(), pair.end->send(62, message));
  co_await turns(2);
  co_await send_raw(pair.peer, by.bytes);
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::protocol_violation, {"violated the protocol", by.expected_text});
  const auto of_send = co_await sender.failure();
  expect_error(of_send, errc::protocol_violation, {by.expected_text});
  co_await receive_all(pair.peer);  // the channel closes the connection
  const auto later = co_await failure_of(pair.end->send(0, const_view()));
  expect_error(later, errc::protocol_violation, {by.expected_text});
}

TEST_P(hostile_bytes, end_the_channel) {
  expect_log(GetParam().expected_text);
  run_test(run_attack(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(tcp, hostile_bytes, testing::ValuesIn(hostile_frames()),
                         [](const auto& which) { return which.param.name; });

/// An accepted message: its data must come in order and complete, and never beyond the view.
awaitable<void> wrong_data(std::uint64_t offset, std::size_t bytes) {
  hostile_pair pair = co_await connect_hostile(small_settings());
  std::vector<std::byte> into(150, std::byte{0xee});
  background receiver(pair.end->get_executor(), pair.end->recv(1, mutable_view(into.data(), 100)));
  co_await send_raw(pair.peer, announcement(0x10000, 1, 100));
  const frame answer = co_await receive_frame(pair.peer);
  EXPECT_EQ(answer.type, frame_type::accept);
  frame data = of_type(frame_type::data);
  data.message_id = 0x10000;
  data.flow = 1;
  data.offset = offset;
  data.payload_bytes = static_cast<std::uint32_t>(bytes);
  co_await send_raw(pair.peer, data, std::string(bytes, 'd'));
  const auto failure = co_await receiver.failure();
  expect_error(failure, errc::protocol_violation, {"unexpected data of message", "of 100 bytes"});
  EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{0xee}), 150);
}

TEST(tcp_hostile, data_beyond_the_message) {
  expect_log("unexpected data of message");
  run_test(wrong_data(0, 101));
}
TEST(tcp_hostile, data_at_the_wrong_place) {
  expect_log("unexpected data of message");
  run_test(wrong_data(50, 50));
}
TEST(tcp_hostile, data_of_no_bytes) {
  expect_log("unexpected data of message");
  run_test(wrong_data(0, 0));
}

awaitable<void> end_in_mid_frame(std::size_t kept_bytes) {
  hostile_pair pair = co_await connect_hostile(small_settings());
  std::vector<std::byte> into(200);
  background receiver(pair.end->get_executor(), pair.end->recv(1, into));
  co_await send_raw(pair.peer, eager(1, 200).substr(0, kept_bytes));
  pair.peer.close();
  const auto failure = co_await receiver.failure();
  expect_error(failure, errc::peer_lost,
               {"the peer is gone", "ended without a close frame", "recv"});
}

TEST(tcp_hostile, end_in_a_header) {
  run_test(end_in_mid_frame(30));
}
TEST(tcp_hostile, end_in_a_payload) {
  run_test(end_in_mid_frame(64 + 100));
}
TEST(tcp_hostile, end_between_frames) {
  run_test(end_in_mid_frame(0));
}

/// Late answers of a correct peer are no violation.
awaitable<void> late_answers() {
  hostile_pair pair = co_await connect_hostile(small_settings());
  const std::vector<std::byte> message = pattern(5000, 1);
  background sender(pair.end->get_executor(), pair.end->send(1, message));
  const frame announced = co_await receive_frame(pair.peer);
  EXPECT_EQ(announced.type, frame_type::announce);
  sender.cancel();
  const frame withdrawn = co_await receive_frame(pair.peer);
  EXPECT_EQ(withdrawn.type, frame_type::withdraw);
  EXPECT_EQ(withdrawn.message_id, announced.message_id);
  for (const frame_type type : {frame_type::accept, frame_type::refuse, frame_type::withdraw}) {
    frame late = of_type(type);
    late.message_id = announced.message_id;
    late.flow = 1;
    co_await send_raw(pair.peer, late);
  }
  co_await send_raw(pair.peer, eager(1, 20));
  std::vector<std::byte> into(20);
  const std::size_t length = co_await pair.end->recv(1, into);
  EXPECT_EQ(length, 20u);
}

TEST(tcp_hostile, answers_to_a_withdrawn_message_are_fine) {
  run_test(late_answers());
}

}  // namespace
}  // namespace tandem::test
