// Peers that are killed during a message, in either direction, and that nothing is left behind.

#include <signal.h>
#include <sys/wait.h>

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>

#include "conformance/shm_peer.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t long_bytes = std::size_t{512} << 20;

struct variant {
  std::string name;
  single_copy copies;
  bool is_shared = false;  ///< the message is in a shared buffer
};

settings with(single_copy copies) {
  settings s;
  s.shm_single_copy = copies;
  return s;
}

/// Sends one message as a sign of life; then messages without end.
awaitable<void> sends_without_end(std::string name, settings options, const_view message) {
  std::unique_ptr<channel> parent = co_await shm::connect(std::move(name), std::move(options));
  co_await send_pattern(*parent, 0, 1000, 1);
  for (;;) co_await parent->send(1, message);
}

awaitable<void> sends_for_ever(std::string name, settings options) {
  const std::vector<std::byte> message(long_bytes, std::byte{7});
  co_await sends_without_end(std::move(name), std::move(options), message);
}

awaitable<void> sends_shared_for_ever(std::string name, settings options) {
  const shm::shared_buffer message(long_bytes);
  co_await sends_without_end(std::move(name), std::move(options), message.view());
}

awaitable<void> receives_for_ever(std::string name, settings options) {
  std::unique_ptr<channel> parent = co_await shm::connect(std::move(name), std::move(options));
  co_await send_pattern(*parent, 0, 1000, 1);
  std::vector<std::byte> into(long_bytes);
  for (;;) co_await parent->recv(1, into);
}

std::size_t names_in_dev_shm() {
  const std::filesystem::directory_iterator all("/dev/shm");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

void kill_and_wait(pid_t child) {
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

awaitable<void> loses_a_sender(settings options, bool is_shared) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", options);
  const pid_t child =
      start_shm_peer(is_shared ? sends_shared_for_ever : sends_for_ever, listener.name(), options);
  require(child > 0, "no process");
  std::unique_ptr<channel> peer = co_await listener.accept();
  co_await recv_pattern(*peer, 0, 1000, 1);
  std::vector<std::byte> into(long_bytes);
  background receiver(executor, peer->recv(1, into));
  background other(executor, peer->recv(2, mutable_view()));
  const auto has_begun = [&peer] { return peer->stats().bytes_received > 1'000'000; };
  co_await until(has_begun, "the first bytes");
  kill_and_wait(child);
  const auto failure = co_await receiver.failure();
  expect_error(failure, errc::peer_lost,
               {"the peer is gone", "recv: message arriving", "of 536870912 bytes"});
  const auto of_other = co_await other.failure();
  expect_error(of_other, errc::peer_lost, {"the peer is gone", "last output"});
}

awaitable<void> loses_a_receiver(settings options, bool is_shared) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener listener(executor, "", options);
  const pid_t child = start_shm_peer(receives_for_ever, listener.name(), options);
  require(child > 0, "no process");
  std::unique_ptr<channel> peer = co_await listener.accept();
  co_await recv_pattern(*peer, 0, 1000, 1);
  std::vector<std::byte> plain(is_shared ? 0 : long_bytes);
  const shm::shared_buffer shared(is_shared ? long_bytes : 0);
  const std::span<std::byte> message(is_shared ? shared.data() : plain.data(), long_bytes);
  background sender(executor, peer->send(1, message));
  co_await turns(20);
  kill_and_wait(child);
  const auto failure = co_await sender.failure();
  expect_error(failure, errc::peer_lost, {"the peer is gone", "of 536870912 bytes"});
  std::fill(message.begin(), message.end(), std::byte{0});  // the buffer is free again
}

class shm_lost : public testing::TestWithParam<variant> {};

TEST_P(shm_lost, sender_killed_in_mid_message) {
  const std::size_t names = names_in_dev_shm();
  run_test(loses_a_sender(with(GetParam().copies), GetParam().is_shared));
  EXPECT_EQ(names_in_dev_shm(), names);
}
TEST_P(shm_lost, receiver_killed_in_mid_message) {
  const std::size_t names = names_in_dev_shm();
  run_test(loses_a_receiver(with(GetParam().copies), GetParam().is_shared));
  EXPECT_EQ(names_in_dev_shm(), names);
}

INSTANTIATE_TEST_SUITE_P(shm, shm_lost,
                         testing::Values(variant{"single_copy", single_copy::on},
                                         variant{"ring", single_copy::off},
                                         variant{"shared_buffer", single_copy::off, true}),
                         [](const auto& which) { return which.param.name; });

/// The peer's socket ends during an eager payload: the message is discarded.
awaitable<void> ends_in_mid_payload(shm::close_state how, errc expected) {
  hostile_memory pair = co_await connect_hostile_memory(small_settings());
  shm::record& first = pair.record_at(0);
  first.type = static_cast<std::uint8_t>(protocol::frame_type::eager);
  first.how = static_cast<std::uint8_t>(shm::transfer_method::first_piece);
  first.payload_bytes = 200;
  first.here_bytes = 100;
  pair.publish(0);
  pair.ring_doorbell();
  co_await until_unexpected(*pair.end, 200);
  std::vector<std::byte> into(200);
  background claims(pair.end->get_executor(), pair.end->recv(0, into));
  co_await turns(2);
  pair.control().closed_as.store(how);
  pair.peer.close();
  const auto failure = co_await claims.failure();
  expect_error(failure, expected);
  EXPECT_EQ(pair.end->stats().unexpected_bytes, 0u);
  const auto later = co_await failure_of(pair.end->recv(0, into));
  expect_error(later, expected);
}

TEST(shm_close, abrupt_end_in_mid_payload) {
  run_test(ends_in_mid_payload(shm::close_state::none, errc::peer_lost));
}
TEST(shm_close, close_in_mid_payload) {
  run_test(ends_in_mid_payload(shm::close_state::close, errc::peer_closed));
}

/// What a peer wrote before it left is received, but its references are not read any more.
awaitable<void> takes_its_memory_back() {
  settings options = small_settings();
  options.shm_single_copy = single_copy::on;
  hostile_memory pair = co_await connect_hostile_memory(options);
  std::vector<std::byte> into(200);
  background receiver(pair.end->get_executor(), pair.end->recv(0, into));
  co_await turns(2);
  const std::vector<std::byte> message(200, std::byte{1});
  shm::record& first = pair.record_at(0);
  first.type = static_cast<std::uint8_t>(protocol::frame_type::eager);
  first.how = static_cast<std::uint8_t>(shm::transfer_method::reference);
  first.payload_bytes = 200;
  protocol::put<std::uint64_t>(first.inline_data, reinterpret_cast<std::uintptr_t>(message.data()));
  pair.publish(0);
  pair.control().closed_as.store(shm::close_state::close);
  pair.ring_doorbell();
  const auto failure = co_await receiver.failure();
  expect_error(failure, errc::peer_closed, {"the peer has closed"});
}

TEST(shm_close, a_reference_of_a_closed_peer_is_not_read) {
  run_test(takes_its_memory_back());
}

}  // namespace
}  // namespace tandem::test
