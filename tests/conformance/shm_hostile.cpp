// A peer that completes the handshake and then violates the protocol in the shared memory: the
// channel ends with an error that describes the violation, and nothing outside the ring is accessed
// (checked by AddressSanitizer).

#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "conformance/shm_peer.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

using protocol::frame_type;
using shm::transfer_method;

settings hostile_settings() {
  settings s = small_settings();
  s.shm_single_copy = single_copy::on;
  s.shm_ring_bytes = 64 * 1024;
  return s;
}

void put(shm::record& to, frame_type type, transfer_method how, std::uint32_t payload_bytes,
         std::uint32_t here_bytes) {
  to.type = static_cast<std::uint8_t>(type);
  to.how = static_cast<std::uint8_t>(how);
  to.flow = 1;
  to.payload_bytes = payload_bytes;
  to.here_bytes = here_bytes;
}

/// Writes one record at the start of the ring.
template <frame_type Type, transfer_method How, std::uint32_t PayloadBytes, std::uint32_t HereBytes>
void one_record(hostile_memory& by) {
  put(by.record_at(0), Type, How, PayloadBytes, HereBytes);
  by.publish(0);
}

struct memory_attack {
  std::string name;
  void (*carry_out)(hostile_memory& by);
  std::string expected_text;
};

void bad_ready_word(hostile_memory& by) {
  by.record_at(0).ready.store(0x12345678);
}
void bad_transfer_method(hostile_memory& by) {
  put(by.record_at(0), frame_type::eager, transfer_method::inline_data, 8, 8);
  by.record_at(0).how = 200;
  by.publish(0);
}
void unknown_type(hostile_memory& by) {
  put(by.record_at(0), static_cast<frame_type>(99), transfer_method::inline_data, 0, 0);
  by.publish(0);
}
void accept_of_nothing(hostile_memory& by) {
  put(by.record_at(0), frame_type::accept, transfer_method::inline_data, 0, 0);
  by.record_at(0).message_id = std::uint64_t{1} << 40;
  by.publish(0);
}
void begun(hostile_memory& by) {
  put(by.record_at(0), frame_type::eager, transfer_method::first_piece, 200, 100);
  by.publish(0);
}
void another_frame_in_mid_payload(hostile_memory& by) {
  put(by.record_at(192), frame_type::eager, transfer_method::inline_data, 8, 8);
  by.publish(192);
  begun(by);
}
void more_than_the_payload(hostile_memory& by) {
  put(by.record_at(192), frame_type::eager, transfer_method::more, 200, 101);
  by.publish(192);
  begun(by);
}
void consumed_too_much(hostile_memory& by) {
  by.control().consumed.store(~std::uint64_t{0} / 2);
  // The channel reads `consumed` when its ring is full.
  by.control().wake_mask.store(shm::wakes_for_records);
}

std::vector<memory_attack> memory_attacks() {
  constexpr auto eager = frame_type::eager;
  return {
      {"bad_ready_word", bad_ready_word, "a record starts with 0x12345678"},
      {"bad_transfer_method", bad_transfer_method, "transfer method 200"},
      {"unknown_type", unknown_type, "unknown type 99"},
      {"inline_too_long", one_record<eager, transfer_method::inline_data, 21, 21>,
       "21 of 21 bytes"},
      {"inline_incomplete", one_record<eager, transfer_method::inline_data, 20, 10>,
       "10 of 20 bytes"},
      {"piece_too_long", one_record<eager, transfer_method::first_piece, 20000, 20000>,
       "20000 of 20000 bytes"},
      {"piece_beyond_payload", one_record<eager, transfer_method::first_piece, 100, 200>,
       "200 of 100 bytes"},
      {"piece_of_nothing", one_record<eager, transfer_method::first_piece, 100, 0>,
       "0 of 100 bytes"},
      {"payload_of_4_gib", one_record<eager, transfer_method::first_piece, 0xffffffffu, 64>,
       "beyond the credits of flow 1"},
      {"more_of_nothing", one_record<eager, transfer_method::more, 100, 100>,
       "without a payload in progress"},
      {"another_frame_in_mid_payload", another_frame_in_mid_payload,
       "8 bytes instead of the rest of a payload of 200"},
      {"more_than_the_payload", more_than_the_payload, "101 bytes instead of the rest"},
      {"reference_to_nothing", one_record<eager, transfer_method::reference, 100, 0>,
       "100 bytes of its memory cannot be read"},
      {"reference_too_long", one_record<eager, transfer_method::reference, 257, 0>,
       "257 bytes beyond the credits"},
      {"mapped_nothing", one_record<eager, transfer_method::mapped, 100, 0>,
       "100 bytes of its memory cannot be read"},
      {"mapped_with_bytes", one_record<eager, transfer_method::mapped, 100, 10>, "10 of 100 bytes"},
      {"payload_on_control_frame",
       one_record<frame_type::credit, transfer_method::inline_data, 5, 5>,
       "a record of type 7 with 5 payload bytes"},
      {"data_never_asked_for", one_record<frame_type::data, transfer_method::inline_data, 8, 8>,
       "unexpected data of message"},
      {"accept_of_nothing", accept_of_nothing, "an accept for a message"},
      {"close_frame_in_the_ring", one_record<frame_type::close, transfer_method::inline_data, 0, 0>,
       "a close frame in the ring"},
      {"consumed_too_much", consumed_too_much, "acknowledged more than was written"},
  };
}

class hostile_memory_test : public testing::TestWithParam<memory_attack> {};

awaitable<void> run_attack(memory_attack by) {
  hostile_memory pair = co_await connect_hostile_memory(hostile_settings());
  std::vector<std::byte> into(100);
  background receiver(pair.end->get_executor(), pair.end->recv(1000, into));
  std::vector<background> senders;
  for (flow_id flow = 0; flow < 64; ++flow) {  // announced, and enough to fill the ring
    for (int i = 0; i < 20; ++i) {
      senders.emplace_back(pair.end->get_executor(), send_pattern(*pair.end, flow, 5000, 1));
    }
  }
  co_await turns(2);
  by.carry_out(pair);
  pair.ring_doorbell();
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::protocol_violation, {"violated the protocol", by.expected_text});
  const auto of_send = co_await senders.back().failure();
  expect_error(of_send, errc::protocol_violation, {by.expected_text});
  const auto later = co_await failure_of(pair.end->send(0, const_view()));
  expect_error(later, errc::protocol_violation, {by.expected_text});
}

TEST_P(hostile_memory_test, ends_the_channel) {
  expect_log(GetParam().expected_text);
  run_test(run_attack(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(shm, hostile_memory_test, testing::ValuesIn(memory_attacks()),
                         [](const auto& which) { return which.param.name; });

/// Acknowledges a reference that it was never sent.
awaitable<void> read_too_much() {
  settings options = hostile_settings();
  hostile_memory pair = co_await connect_hostile_memory(options);
  pair.control().reads_references.store(1);
  const std::vector<std::byte> message = pattern(5000, 1);
  background sender(pair.end->get_executor(), pair.end->send(62, message));
  co_await turns(2);
  shm::record& accept = pair.record_at(0);
  put(accept, frame_type::accept, transfer_method::inline_data, 0, 0);
  accept.flow = 62;
  accept.message_id = 1 << 16;
  pair.publish(0);
  pair.ring_doorbell();
  co_await turns(5);
  pair.control().read.store(1000);
  pair.ring_doorbell();
  const auto failure = co_await sender.failure();
  expect_error(failure, errc::protocol_violation, {"acknowledged more than was written"});
}

TEST(shm_hostile, read_too_much) {
  expect_log("acknowledged more than was written");
  run_test(read_too_much());
}

/// The whole ring holds random bytes, with many seeds.
awaitable<void> noise(std::uint64_t seed) {
  hostile_memory pair = co_await connect_hostile_memory(hostile_settings());
  std::vector<std::byte> into(100);
  background receiver(pair.end->get_executor(), pair.end->recv(1, into));
  const shm::ring_memory ring = pair.peer.shared.ring(0);
  const std::vector<std::byte> bytes = pattern(ring.bytes, seed);
  std::memcpy(ring.data, bytes.data(), bytes.size());
  for (std::size_t at = 0; at < ring.bytes; at += shm::record_bytes) {
    pair.record_at(at).type %= 10;
    pair.record_at(at).how %= 6;
    pair.publish(at);
  }
  pair.ring_doorbell();
  const auto failure = co_await receiver.failure();
  expect_error(failure, errc::protocol_violation, {"violated the protocol"});
}

TEST(shm_hostile, noise_in_the_ring) {
  expect_log("violated the protocol");
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    run_test(noise(seed));
  }
}

}  // namespace
}  // namespace tandem::test
