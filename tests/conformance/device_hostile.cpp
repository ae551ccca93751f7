// A peer that completes the handshake and then violates the protocol on the inner channel: the
// device channel ends with an error that describes the violation, for an operation in device
// memory, and no engine copies a byte (the double fails the test for invalid addresses).

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <tandem/channels.hpp>

#include "conformance/channel_case.hpp"
#include "devices/flows.hpp"
#include "devices/link.hpp"
#include "support/device_views.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

using devices::control_message;
using protocol::frame;
using protocol::frame_type;
using bytes = std::vector<std::byte>;

bytes wire(const frame& f, std::size_t more = 0) {
  protocol::wire_frame words;
  protocol::encode(f, words);
  bytes made(words.begin(), words.end());
  made.resize(made.size() + more);
  return made;
}

bytes wire(const devices::handshake& of) {
  bytes made(devices::handshake_bytes);
  devices::encode(of, std::span<std::byte, devices::handshake_bytes>(made));
  return made;
}

bytes wire(const control_message& of) {
  bytes made(devices::control_message_bytes);
  devices::encode(of, std::span<std::byte, devices::control_message_bytes>(made));
  return made;
}

bytes wire(const frame& f, const devices::reference& to) {
  bytes made = wire(f, devices::reference_bytes);
  devices::encode(to, made.data() + protocol::frame_bytes);
  return made;
}

control_message described(std::uint32_t id) {
  control_message made{.what = control_message::type::described, .id = id};
  made.allocation = {.id = id,
                     .kind = memory_kind::cuda,
                     .uuid = std::string(32, 'a'),
                     .base = 4096,
                     .bytes = 1 << 20};
  return made;
}

constexpr std::uint16_t placed = devices::by_reference | protocol::direct_placement;
constexpr devices::reference to_nothing{.serial = 3, .at = {.allocation = 77, .offset = 1 << 30}};
constexpr frame eager{
    .type = frame_type::eager, .flags = devices::by_reference, .payload_bytes = 100};
constexpr frame data{.type = frame_type::data,
                     .flags = placed,
                     .message_id = 1 << 16,
                     .chunk_count = 1,
                     .payload_bytes = 1000};

struct words_attack {
  std::string name;
  std::vector<bytes> said;
  std::string complaint;
};

frame with(frame f, std::uint16_t flags) {
  f.flags = flags;
  return f;
}

std::vector<words_attack> attacks() {
  const frame announce{.type = frame_type::announce, .message_id = 1 << 16, .offset = 1000};
  bytes grant_and_credit = wire(frame{.type = frame_type::grant, .message_id = 1 << 16});
  const bytes credit = wire(frame{});
  grant_and_credit.insert(grant_and_credit.end(), credit.begin(), credit.end());
  bytes damaged = wire(described(0));
  damaged[20] ^= std::byte{1};
  return {
      {"half_a_frame", {bytes(10)}, "a frame of 10 bytes"},
      {"a_frame_of_nothing_known", {bytes(64)}, "starts with 0x00000000"},
      {"more_than_a_frame_has", {wire(frame{}, 8)}, "8 bytes after a frame with a payload of 0"},
      {"half_a_reference", {wire(eager, 8)}, "a reference of 8 bytes"},
      {"a_reference_to_memory_that_nobody_described", {wire(eager, to_nothing)}, "allocation 0x4d"},
      {"a_reference_beyond_its_allocation",
       {wire(described(77)), wire(eager, to_nothing)},
       "allocation 0x4d"},
      {"an_eager_message_in_place", {wire(with(eager, placed), to_nothing)}, "in place"},
      {"data_in_place_for_no_message", {wire(data, to_nothing)}, "unexpected data of message"},
      {"data_in_place_that_nobody_granted",
       {wire(announce), wire(data, to_nothing)},
       "without a grant"},
      {"a_way_and_no_accept", {grant_and_credit}, "a write grant without its accept"},
      {"a_goodbye_among_frames",
       {wire(frame{.type = frame_type::close})},
       "unexpected close frame"},
      {"a_reference_read_that_was_not_given",
       {wire(control_message{.serials = {5}, .count = 1})},
       "a control message about memory it was not given"},
      {"an_allocation_opened_that_was_not_described",
       {wire(control_message{.what = control_message::type::opened, .id = 9})},
       "a control message about memory it was not given"},
      {"the_end_of_an_allocation_that_was_not_described",
       {wire(control_message{.what = control_message::type::retired, .id = 9})},
       "retirement of allocation 0x9"},
      {"too_many_allocations",
       {wire(described(devices::max_shared_allocations))},
       "that this end cannot read"},
      {"a_damaged_note", {damaged}, "checksum"},
  };
}

class device_words : public testing::TestWithParam<words_attack> {};

/// A device channel whose inner channel ends at the test, and the handshake it has sent.
struct hostile_peer {
  std::unique_ptr<channel> below, mine;
  devices::handshake heard;
};

awaitable<hostile_peer> meet() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const settings options = small_settings();
  auto [inner, below] = local::make_pair(executor, executor, options);
  const auto copiers = std::make_shared<devices::copiers>(executor);
  hostile_peer made{.below = std::move(below),
                    .mine = devices::make_channel(std::move(inner), copiers, options),
                    .heard = {}};
  bytes theirs(devices::handshake_bytes);
  const mutable_view heard(theirs);
  co_await made.below->recv(devices::frame_flow, heard);
  std::string why;
  made.heard = devices::decode(theirs, why);
  EXPECT_EQ(why, "");
  co_return made;
}

/// Sends all of them.
awaitable<void> speak(channel& below, const std::vector<bytes>& all) {
  for (const bytes& each : all) co_await below.send(devices::frame_flow, const_view(each));
}

awaitable<void> suffer(words_attack by) {
  cuda_double& gpus = gpus_of_this_test();
  hostile_peer ends = co_await meet();
  channel& mine = *ends.mine;
  devices::handshake mirrored = ends.heard;
  mirrored.where.process[0] ^= std::byte{0xff};  // another process of this host
  const buffer into(20'000, memory_kind::cuda, 0);
  background receiver(mine.get_executor(), mine.recv(0, into.view()));
  by.said.insert(by.said.begin(), wire(mirrored));
  background speaker(mine.get_executor(), speak(*ends.below, by.said));

  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::protocol_violation, {"violated the protocol", by.complaint});
  const auto later = co_await failure_of(mine.send(0, const_view()));
  expect_error(later, errc::protocol_violation, {by.complaint});
  EXPECT_EQ(gpus.calls("cuMemcpyAsync"), 0U);
  co_await speaker.failure();
}

TEST_P(device_words, end_the_channel) {
  gpus_of_this_test();
  expect_log(GetParam().complaint);
  run_test(suffer(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(devices, device_words, testing::ValuesIn(attacks()),
                         [](const auto& which) { return which.param.name; });

/// An invalid handshake, and the error text of the end that receives it.
struct handshake_attack {
  std::string name;
  std::function<bytes(devices::handshake)> spoil;
  std::string complaint;
};

std::vector<handshake_attack> handshake_attacks() {
  return {
      {"none", [](devices::handshake) { return bytes(64); }, "host memory only"},
      {"short",
       [](const devices::handshake& g) {
         bytes made = wire(g);
         made.pop_back();
         return made;
       },
       "host memory only"},
      {"damaged",
       [](const devices::handshake& g) {
         bytes made = wire(g);
         made[30] ^= std::byte{1};
         return made;
       },
       "checksum"},
      {"of_another_version",
       [](devices::handshake g) {
         ++g.version;
         return wire(g);
       },
       "has version 4"},
      {"with_other_frames",
       [](devices::handshake g) {
         g.inline_bytes += 64;
         return wire(g);
       },
       "inline bytes"},
  };
}

class device_handshakes : public testing::TestWithParam<handshake_attack> {};

awaitable<void> hear(handshake_attack by) {
  hostile_peer ends = co_await meet();
  const bytes spoilt = by.spoil(ends.heard);
  bytes into(100);
  background receiver(ends.mine->get_executor(), ends.mine->recv(0, into));
  const auto of_send =
      co_await failure_of(ends.below->send(devices::frame_flow, const_view(spoilt)));
  EXPECT_FALSE(of_send);
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::protocol_violation, {by.complaint});
}

TEST_P(device_handshakes, end_the_channel) {
  gpus_of_this_test();
  expect_log(GetParam().complaint);
  run_test(hear(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(devices, device_handshakes, testing::ValuesIn(handshake_attacks()),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace tandem::test
