// Data connections with a key: a peer that does not prove it is not trusted.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "conformance/channel_case.hpp"
#include "conformance/pairs.hpp"
#include "conformance/raw_peer.hpp"
#include "support/expected_log.hpp"
#include "tcp/proof.hpp"

namespace tandem::test {
namespace {

const std::string_view other_secret = "somebody else's secret";

awaitable<void> trusted_peer(tcp::listener& door) {
  std::unique_ptr<channel> theirs = co_await tcp::connect("127.0.0.1", door.port(), with_secret());
  std::unique_ptr<channel> mine = co_await door.accept();
  co_await expect_usable(*mine, *theirs);
}

awaitable<void> counted(tcp::listener& door, std::uint64_t count) {
  const auto is_counted = [&door, count] { return door.rejected_connections() == count; };
  co_await until(is_counted, "the stranger to be counted");
}

awaitable<void> refused_with(settings ours, settings theirs, std::string words) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener door(executor, "127.0.0.1", 0, ours);
  const auto failure = co_await failure_of(connect_by_tcp(door.port(), theirs));
  expect_error(failure, errc::not_trusted, {std::to_string(door.port()), words});
  expect_error(failure, errc::not_trusted, {"TANDEM_SECRET_FILE"});
  co_await counted(door, 1);
  if (!ours.job_secret.empty()) co_await trusted_peer(door);
}

TEST(tcp_trust, another_secret_is_refused_on_both_sides) {
  expect_log("it closed the connection without a proof");
  run_test(refused_with(with_secret(), with_secret(other_secret), "has a different job secret"));
}
TEST(tcp_trust, who_has_no_secret_is_refused) {
  expect_log("has a job secret, the connecting peer has none");
  run_test(refused_with(with_secret(), small_settings(), "has a secret"));
}
TEST(tcp_trust, a_listener_without_a_secret_is_refused) {
  expect_log("has no job secret, the connecting peer has one");
  run_test(refused_with(small_settings(), with_secret(), "has no secret"));
}

TEST(tcp_trust, one_secret_opens_also_beyond_loopback) {
  const auto body = []() -> awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    tcp::listener door(executor, "0.0.0.0", 0, with_secret());
    co_await trusted_peer(door);
    EXPECT_EQ(door.rejected_connections(), 0u);
  };
  run_test(body());
}

/// An unauthenticated peer after the listener's proof.
struct half_open {
  raw_socket socket;
  std::string hello;   ///< sent by the peer
  std::string answer;  ///< the listener's hello and proof
};

std::string as_text(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

tcp::wire_hello as_hello(const std::string& text) {
  tcp::wire_hello wire;
  std::memcpy(wire.data(), text.data(), wire.size());
  return wire;
}

std::string keyed_hello() {
  tcp::hello mine;
  mine.limits = protocol::offered(small_settings());
  mine.keyed = true;
  tcp::wire_hello wire;
  tcp::encode(mine, wire);
  return as_text(wire);
}

awaitable<half_open> knock(tcp::listener& door) {
  raw_socket socket = co_await raw_connect(door.port());
  const std::string hello = keyed_hello();
  co_await say(socket, hello);
  const std::string answer = co_await hear(socket, tcp::hello_bytes + trust::digest_bytes);
  require(answer.size() == tcp::hello_bytes + trust::digest_bytes, "no answer with a proof");
  co_return half_open{std::move(socket), hello, answer};
}

enum class lie { reflected, of_another_key, of_another_step, frames };

std::string told(lie what, const half_open& to) {
  const tcp::wire_hello mine = as_hello(to.hello), theirs = as_hello(to.answer);
  const secret right = tcp::pair_key(with_secret());
  switch (what) {
    case lie::reflected:
      return to.answer.substr(tcp::hello_bytes);
    case lie::of_another_key:
      return as_text(
          tcp::prove(tcp::step::connector, tcp::pair_key(with_secret(other_secret)), mine, theirs));
    case lie::of_another_step:
      return as_text(tcp::prove(tcp::step::accepted, right, mine, theirs));
    case lie::frames:
      break;
  }
  protocol::wire_frame frame;
  protocol::encode(protocol::frame{}, frame);
  return as_text(frame);
}

awaitable<void> drops_a_lie(lie what) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener door(executor, "127.0.0.1", 0, with_secret());
  half_open stranger = co_await knock(door);
  co_await say(stranger.socket, told(what, stranger));
  const std::string rest = co_await hear_all(stranger.socket);
  EXPECT_EQ(rest, "");
  co_await counted(door, 1);
  co_await trusted_peer(door);
}

class tcp_lies : public testing::TestWithParam<lie> {};
TEST_P(tcp_lies, are_dropped) {
  expect_log("job secret mismatch");
  run_test(drops_a_lie(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(tcp, tcp_lies,
                         testing::Values(lie::reflected, lie::of_another_key, lie::of_another_step,
                                         lie::frames));

/// The same raw peer with a valid proof is accepted: only the content of the forged ones was wrong.
awaitable<void> takes_the_truth() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener door(executor, "127.0.0.1", 0, with_secret());
  half_open peer = co_await knock(door);
  const tcp::wire_hello mine = as_hello(peer.hello), theirs = as_hello(peer.answer);
  const secret key = tcp::pair_key(with_secret());
  tcp::proof given;
  std::memcpy(given.data(), peer.answer.data() + tcp::hello_bytes, given.size());
  EXPECT_TRUE(tcp::is_proof(given, tcp::step::listener, key, mine, theirs));
  const std::string truth = as_text(tcp::prove(tcp::step::connector, key, mine, theirs));
  co_await say(peer.socket, truth);
  std::unique_ptr<channel> made = co_await door.accept();
  const std::string last = co_await hear(peer.socket, trust::digest_bytes);
  EXPECT_EQ(last, as_text(tcp::prove(tcp::step::accepted, key, mine, theirs)));
  // Replays the recorded handshake.
  raw_socket again = co_await raw_connect(door.port());
  co_await say(again, peer.hello + truth);
  const std::string rest = co_await hear_all(again);
  EXPECT_EQ(rest.size(), tcp::hello_bytes + trust::digest_bytes);
  co_await counted(door, 1);
}

TEST(tcp_trust, a_recorded_handshake_is_worth_nothing) {
  expect_log("job secret mismatch");
  run_test(takes_the_truth());
}

awaitable<void> half_a_proof_and_no_more() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener door(executor, "127.0.0.1", 0, with_secret());
  half_open stranger = co_await knock(door);
  co_await say(stranger.socket, std::string(16, 'p'));
  co_await trusted_peer(door);  // is not delayed
  EXPECT_EQ(door.rejected_connections(), 0u);
  co_await hear_all(stranger.socket);  // until the handshake timeout
  co_await counted(door, 1);
}

TEST(tcp_trust, a_proof_has_five_seconds) {
  expect_log("not done within 5 s");
  run_test(half_a_proof_and_no_more(), drive::by_asio, 60s);
}

/// A listener without the key, or one that replays a recorded answer, gets no frame.
awaitable<void> imposter(asio::ip::tcp::acceptor& at, std::string words, std::string& heard) {
  raw_socket guest = co_await at.async_accept(asio::use_awaitable);
  co_await hear(guest, tcp::hello_bytes);
  co_await say(guest, std::move(words));
  heard = co_await hear_all(guest);
}

awaitable<void> imposter_is_refused(bool with_recorded_proof) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener door(executor, "127.0.0.1", 0, with_secret());
  half_open recorded = co_await knock(door);
  recorded.socket.close();
  std::string words = recorded.answer;
  if (!with_recorded_proof) words.resize(tcp::hello_bytes);
  if (!with_recorded_proof) words += std::string(trust::digest_bytes, 'p');
  const asio::ip::tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
  asio::ip::tcp::acceptor acceptor(executor, any);
  std::string heard;
  background server(executor, imposter(acceptor, words, heard));
  const auto failure =
      co_await failure_of(connect_by_tcp(acceptor.local_endpoint().port(), with_secret()));
  expect_error(failure, errc::not_trusted, {"has a different job secret"});
  co_await server.result();
  EXPECT_EQ(heard, "");
}

TEST(tcp_trust, an_imposter_with_a_recorded_proof_is_refused) {
  expect_log("it closed the connection without a proof");
  run_test(imposter_is_refused(true));
}
TEST(tcp_trust, an_imposter_with_a_guess_is_refused) {
  expect_log("it closed the connection without a proof");
  run_test(imposter_is_refused(false));
}

}  // namespace
}  // namespace tandem::test
