// A peer that completes the handshake and then violates the protocol on the inner channel: the
// device channel ends with an error that describes the violation, for an operation in device
// memory, and no engine copies a byte (the double fails the test for invalid addresses).

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <tandem/channels.hpp>

#include "devices/link.hpp"
#include "support/channel_case.hpp"
#include "support/device_views.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

using devices::control_message;
using protocol::frame;
using protocol::frame_type;
using bytes = std::vector<std::byte>;

bytes encoded(const frame& f, std::size_t more = 0) {
  protocol::wire_frame words;
  protocol::encode(f, words);
  bytes made(words.begin(), words.end());
  made.resize(made.size() + more);
  return made;
}

bytes encoded(const devices::handshake& of) {
  bytes made(devices::handshake_bytes);
  devices::encode(of, std::span<std::byte, devices::handshake_bytes>(made));
  return made;
}

bytes encoded(const control_message& of) {
  bytes made(devices::control_message_bytes);
  devices::encode(of, std::span<std::byte, devices::control_message_bytes>(made));
  return made;
}

bytes encoded(const frame& f, const devices::reference& to) {
  bytes made = encoded(f, devices::reference_bytes);
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

control_message pages(std::uint32_t id, std::size_t count) {
  control_message made{.what = control_message::type::pages, .id = id};
  made.allocation.pages.assign(count, {.descriptor = 1, .bytes = 4096});
  return made;
}

control_message of_pages(std::uint32_t id, std::size_t count) {
  control_message made = described(id);
  made.allocation.page_count = count;
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

struct frame_attack {
  std::string name;
  std::vector<bytes> frames;
  std::string expected_text;
};

frame with(frame f, std::uint16_t flags) {
  f.flags = flags;
  return f;
}

std::vector<frame_attack> attacks() {
  const frame announce{.type = frame_type::announce, .message_id = 1 << 16, .offset = 1000};
  bytes grant_and_credit = encoded(frame{.type = frame_type::grant, .message_id = 1 << 16});
  const bytes credit = encoded(frame{});
  grant_and_credit.insert(grant_and_credit.end(), credit.begin(), credit.end());
  bytes damaged = encoded(described(0));
  damaged[20] ^= std::byte{1};
  return {
      {"half_a_frame", {bytes(10)}, "a frame of 10 bytes"},
      {"a_frame_without_magic", {bytes(64)}, "starts with 0x00000000"},
      {"a_frame_with_extra_bytes",
       {encoded(frame{}, 8)},
       "8 bytes after a frame with a payload of 0"},
      {"half_a_reference", {encoded(eager, 8)}, "a reference of 8 bytes"},
      {"a_reference_to_memory_that_was_not_described",
       {encoded(eager, to_nothing)},
       "allocation 0x4d"},
      {"a_reference_beyond_its_allocation",
       {encoded(described(77)), encoded(eager, to_nothing)},
       "allocation 0x4d"},
      {"a_reference_before_all_pages_are_described",
       {encoded(of_pages(77, 2)), encoded(pages(77, 1)), encoded(eager, to_nothing)},
       "of whose 2 pages 1 are described"},
      {"pages_of_nothing", {encoded(pages(5, 1))}, "1 pages of allocation 0x5"},
      {"pages_of_memory_with_a_handle",
       {encoded(described(5)), encoded(pages(5, 1))},
       "1 pages of allocation 0x5, of which 0 are left"},
      {"more_pages_than_were_described",
       {encoded(of_pages(5, 2)), encoded(pages(5, 3))},
       "of which 2 are left"},
      {"pages_of_another_length",
       {encoded(of_pages(5, 2)), encoded(pages(5, 2))},
       "8192 bytes in the pages"},
      {"an_eager_message_in_place", {encoded(with(eager, placed), to_nothing)}, "in place"},
      {"data_in_place_for_no_message", {encoded(data, to_nothing)}, "unexpected data of message"},
      {"data_in_place_without_a_grant",
       {encoded(announce), encoded(data, to_nothing)},
       "without a grant"},
      {"a_write_grant_without_accept", {grant_and_credit}, "a write grant without its accept"},
      {"an_unexpected_close_frame",
       {encoded(frame{.type = frame_type::close})},
       "unexpected close frame"},
      {"a_reference_read_that_was_not_given",
       {encoded(control_message{.serials = {5}, .count = 1})},
       "a control message about memory it was not given"},
      {"an_allocation_opened_that_was_not_described",
       {encoded(control_message{.what = control_message::type::opened, .id = 9})},
       "a control message about memory it was not given"},
      {"the_end_of_an_allocation_that_was_not_described",
       {encoded(control_message{.what = control_message::type::retired, .id = 9})},
       "retirement of allocation 0x9"},
      {"too_many_allocations",
       {encoded(described(devices::max_shared_allocations))},
       "that this end cannot read"},
      {"a_corrupt_control_message", {damaged}, "checksum"},
  };
}

class device_frames : public testing::TestWithParam<frame_attack> {};

/// A device channel whose inner channel ends at the test, and the handshake it has sent.
struct hostile_peer {
  std::unique_ptr<channel> below, end;
  devices::handshake received;
};

awaitable<hostile_peer> connect_hostile() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const settings options = small_settings();
  auto [inner, below] = local::make_pair(executor, executor, options);
  const auto copiers = std::make_shared<devices::copiers>(executor);
  hostile_peer made{.below = std::move(below),
                    .end = devices::make_channel(std::move(inner), copiers, options),
                    .received = {}};
  bytes raw(devices::handshake_bytes);
  const mutable_view received(raw);
  co_await made.below->recv(devices::frame_flow, received);
  std::string why;
  made.received = devices::decode(raw, why);
  EXPECT_EQ(why, "");
  co_return made;
}

/// Sends all of them.
awaitable<void> send_all(channel& below, const std::vector<bytes>& all) {
  for (const bytes& each : all) co_await below.send(devices::frame_flow, const_view(each));
}

awaitable<void> run_attack(frame_attack by) {
  cuda_double& gpus = gpus_of_this_test();
  hostile_peer ends = co_await connect_hostile();
  channel& end = *ends.end;
  devices::handshake mirrored = ends.received;
  mirrored.where.process[0] ^= std::byte{0xff};  // another process of this host
  const buffer into(20'000, memory_kind::cuda, 0);
  background receiver(end.get_executor(), end.recv(0, into.view()));
  by.frames.insert(by.frames.begin(), encoded(mirrored));
  background sender(end.get_executor(), send_all(*ends.below, by.frames));

  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::protocol_violation, {"violated the protocol", by.expected_text});
  const auto later = co_await failure_of(end.send(0, const_view()));
  expect_error(later, errc::protocol_violation, {by.expected_text});
  EXPECT_EQ(gpus.calls("cuMemcpyAsync"), 0U);
  co_await sender.failure();
}

TEST_P(device_frames, end_the_channel) {
  gpus_of_this_test();
  expect_log(GetParam().expected_text);
  run_test(run_attack(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(devices, device_frames, testing::ValuesIn(attacks()),
                         [](const auto& which) { return which.param.name; });

/// An invalid handshake, and the error text of the end that receives it.
struct handshake_attack {
  std::string name;
  std::function<bytes(devices::handshake)> corrupt;
  std::string expected_text;
};

std::vector<handshake_attack> handshake_attacks() {
  return {
      {"none", [](devices::handshake) { return bytes(64); }, "host memory only"},
      {"short",
       [](const devices::handshake& g) {
         bytes made = encoded(g);
         made.pop_back();
         return made;
       },
       "host memory only"},
      {"damaged",
       [](const devices::handshake& g) {
         bytes made = encoded(g);
         made[30] ^= std::byte{1};
         return made;
       },
       "checksum"},
      {"of_another_version",
       [](devices::handshake g) {
         ++g.version;
         return encoded(g);
       },
       "has version 5"},
      {"with_other_frames",
       [](devices::handshake g) {
         g.inline_bytes += 64;
         return encoded(g);
       },
       "inline bytes"},
  };
}

class device_handshakes : public testing::TestWithParam<handshake_attack> {};

awaitable<void> run_handshake_attack(handshake_attack by) {
  hostile_peer ends = co_await connect_hostile();
  const bytes corrupted = by.corrupt(ends.received);
  bytes into(100);
  background receiver(ends.end->get_executor(), ends.end->recv(0, into));
  const auto of_send =
      co_await failure_of(ends.below->send(devices::frame_flow, const_view(corrupted)));
  EXPECT_FALSE(of_send);
  const auto of_recv = co_await receiver.failure();
  expect_error(of_recv, errc::protocol_violation, {by.expected_text});
}

TEST_P(device_handshakes, end_the_channel) {
  gpus_of_this_test();
  expect_log(GetParam().expected_text);
  run_test(run_handshake_attack(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(devices, device_handshakes, testing::ValuesIn(handshake_attacks()),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace tandem::test
