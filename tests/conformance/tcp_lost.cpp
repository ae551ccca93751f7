// Peers that are killed or stop reading.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "conformance/raw_peer.hpp"
#include "support/attempts.hpp"
#include "support/channel_case.hpp"
#include "support/pending_operation.hpp"
#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

using protocol::frame;
using protocol::frame_type;

awaitable<void> run_peer(std::uint16_t port) {
  std::unique_ptr<channel> parent = co_await tcp::connect("127.0.0.1", port);
  co_await send_pattern(*parent, 0, 1000, 1);
  co_await parent->recv(0, mutable_view());  // never completes
}

/// A process of its own that connects, sends one message and waits.
pid_t start_peer(std::uint16_t port) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  {
    asio::io_context context{1};
    asio::co_spawn(context, run_peer(port), asio::detached);
    context.run();
  }
  ::_exit(1);
}

/// How long it takes to notice.
awaitable<void> lose_peer(tcp::listener& listener, pid_t child,
                          std::chrono::steady_clock::duration& time) {
  std::unique_ptr<channel> peer = co_await listener.accept();
  co_await recv_pattern(*peer, 0, 1000, 1);
  background receiver(peer->get_executor(), peer->recv(1, mutable_view()));
  background sender(peer->get_executor(), send_pattern(*peer, 2, 1'000'000, 1));
  co_await turns(5);
  const auto killed_at = std::chrono::steady_clock::now();
  ::kill(child, SIGKILL);
  const auto of_recv = co_await receiver.failure();
  expect_error(
      of_recv, errc::peer_lost,
      {"the peer is gone", "recv: waiting for a message", "last output", "tcp 127.0.0.1:"});
  const auto of_send = co_await sender.failure();
  expect_error(of_send, errc::peer_lost, {"send: waiting for the receiver", "0 of 1000000 bytes"});
  time = std::chrono::steady_clock::now() - killed_at;
}

std::chrono::steady_clock::duration time_to_lose_a_process() {
  const reserved_port port;
  const pid_t child = start_peer(port.number());
  EXPECT_GT(child, 0);
  std::chrono::steady_clock::duration time = 1h;
  const auto body = [&time](std::uint16_t at, pid_t who) -> awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    tcp::listener listener(executor, "127.0.0.1", at);
    co_await lose_peer(listener, who, time);
  };
  run_test(body(port.number(), child));
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return time;
}

TEST(tcp_lost, killed_process) {
  EXPECT_TRUE(succeeds_once([] { return time_to_lose_a_process() < 2s; }));
}

/// The peer accepts a long message. Returns its announcement.
awaitable<frame> ask_for_message(raw_socket& peer) {
  const frame announced = co_await receive_frame(peer);
  frame answer;
  answer.type = frame_type::accept;
  answer.message_id = announced.message_id;
  answer.flow = announced.flow;
  co_await send_raw(peer, answer);
  co_return announced;
}

/// The peer accepts a long message and then reads no bytes: the deadline frees the sender's view,
/// but fails the channel, because a frame is partly written.
awaitable<void> stopped_peer() {
  hostile_pair pair = co_await connect_hostile(settings{});
  std::vector<std::byte> message = pattern(std::size_t{64} << 20, 1);
  pending_operation late(*pair.end, operation::kind::send, 0, message);
  late.deadline = std::chrono::steady_clock::now() + 100ms;
  EXPECT_FALSE(late.start());
  co_await ask_for_message(pair.peer);
  co_await late.wait();
  EXPECT_EQ(late.result, errc::timed_out);
  require(late.failure != nullptr, "no reason");
  expect_error(*late.failure, errc::timed_out,
               {"accepts no more data", "send: message leaving", "of 67108864 bytes"});
  const auto later = co_await failure_of(pair.end->send(0, const_view()));
  expect_error(later, errc::timed_out, {"accepts no more data"});
}

TEST(tcp_lost, stopped_peer) {
  run_test(stopped_peer());
}

awaitable<void> drain(raw_socket& from) {
  co_await receive_all(from);
}

/// The peer is slow, but reads: only the late message ends, once its current frame is written.
awaitable<void> slow_peer() {
  hostile_pair pair = co_await connect_hostile(settings{});
  std::vector<std::byte> message = pattern(std::size_t{64} << 20, 1);
  pending_operation late(*pair.end, operation::kind::send, 0, message);
  late.deadline = std::chrono::steady_clock::now() + 100ms;
  EXPECT_FALSE(late.start());
  const frame announced = co_await ask_for_message(pair.peer);
  asio::steady_timer past_the_deadline(pair.end->get_executor(), late.deadline + 50ms);
  co_await past_the_deadline.async_wait(asio::use_awaitable);
  EXPECT_EQ(late.completions, 0);
  const frame withdrawn = co_await receive_frame(pair.peer);
  EXPECT_EQ(withdrawn.type, frame_type::withdraw);
  EXPECT_EQ(withdrawn.message_id, announced.message_id);
  co_await late.wait();
  EXPECT_EQ(late.result, errc::timed_out);
  EXPECT_LT(late.bytes, message.size());
  std::vector<std::byte> into(10);
  background receiver(pair.end->get_executor(), pair.end->recv(1, into));
  frame alive;
  alive.type = frame_type::eager;
  alive.flow = 1;
  alive.payload_bytes = 3;
  co_await send_raw(pair.peer, alive, "abc");
  const std::size_t length = co_await receiver.result();
  EXPECT_EQ(length, 3u);
}

TEST(tcp_lost, slow_peer) {
  run_test(slow_peer());
}

/// The socket is full when the channel closes: the close frame follows the data before it.
awaitable<void> close_through_a_full_socket() {
  hostile_pair pair = co_await connect_hostile(settings{});
  std::vector<background> senders;
  for (int i = 0; i < 100; ++i) {
    senders.emplace_back(pair.end->get_executor(), send_pattern(*pair.end, 0, 60'000, 1));
  }
  co_await turns(5);
  pair.end->close();
  co_await drain(pair.peer);
  for (background& sender : senders) {
    const auto failure = co_await sender.failure();
    if (failure) expect_error(failure, errc::channel_closed);
  }
}

TEST(tcp_lost, close_with_a_full_socket) {
  run_test(close_through_a_full_socket());
}

/// Closes while a long message fills the socket. Returns the type of the last frame; the data of
/// the stream must be right although the caller has its buffer back.
awaitable<frame_type> last_frame_of_a_close(std::size_t chunk_bytes, bool* ends_at_frame) {
  settings options;
  options.chunk_bytes = chunk_bytes;
  hostile_pair pair = co_await connect_hostile(options);
  std::vector<std::byte> message = pattern(std::size_t{64} << 20, 1);
  pending_operation send(*pair.end, operation::kind::send, 0, message);
  EXPECT_FALSE(send.start());
  co_await ask_for_message(pair.peer);
  const auto has_begun = [&pair] { return pair.peer.available() > 0; };
  co_await until(has_begun, "data");
  pair.end->close();
  co_await send.wait();
  EXPECT_EQ(send.result, errc::channel_closed);
  std::fill(message.begin(), message.end(), std::byte{0});
  const std::string all = co_await receive_all(pair.peer);
  const auto bytes = std::as_bytes(std::span(all));
  std::vector<std::byte> payload;
  frame last;
  std::size_t at = 0;
  while (at + protocol::frame_bytes <= bytes.size()) {
    std::string why;
    const auto header = bytes.subspan(at).first<protocol::frame_bytes>();
    const auto f = protocol::decode(header, why);
    require(f.has_value(), "no frame: " + why);
    last = *f;
    at += protocol::frame_bytes;
    const std::size_t here = std::min<std::size_t>(last.payload_bytes, bytes.size() - at);
    const auto part = bytes.subspan(at, here);
    payload.insert(payload.end(), part.begin(), part.end());
    at += last.payload_bytes;
  }
  EXPECT_GT(payload.size(), 0u);
  EXPECT_EQ(first_wrong(payload, 1), std::nullopt);
  *ends_at_frame = at == bytes.size();
  co_return last.type;
}

awaitable<void> close_in_mid_frame() {
  bool ends_at_frame = false;
  const frame_type last = co_await last_frame_of_a_close(settings{}.chunk_bytes, &ends_at_frame);
  EXPECT_EQ(last, frame_type::close);
  EXPECT_TRUE(ends_at_frame);
}

TEST(tcp_lost, close_completes_the_current_frame) {
  run_test(close_in_mid_frame());
}

awaitable<void> close_in_a_very_long_frame() {
  bool ends_at_frame = true;
  const frame_type last = co_await last_frame_of_a_close(std::size_t{32} << 20, &ends_at_frame);
  EXPECT_EQ(last, frame_type::data);
  EXPECT_FALSE(ends_at_frame);
}

TEST(tcp_lost, close_copies_no_very_long_frame) {
  run_test(close_in_a_very_long_frame());
}

}  // namespace
}  // namespace tandem::test
