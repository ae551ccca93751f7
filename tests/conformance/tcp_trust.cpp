// Data connections with a key: a peer that does not prove it is not trusted.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "conformance/pairs.hpp"
#include "conformance/raw_peer.hpp"
#include "fabric/proof.hpp"
#include "support/channel_case.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

const std::string_view other_secret = "another job's secret";

awaitable<void> trusted_peer(tcp::listener& listener) {
  std::unique_ptr<channel> remote =
      co_await tcp::connect("127.0.0.1", listener.port(), with_secret());
  std::unique_ptr<channel> local = co_await listener.accept();
  co_await expect_usable(*local, *remote);
}

awaitable<void> counted(tcp::listener& listener, std::uint64_t count) {
  const auto is_counted = [&listener, count] { return listener.rejected_connections() == count; };
  co_await until(is_counted, "the rejected connection to be counted");
}

awaitable<void> refused_with(settings local, settings remote, std::string words) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, local);
  const auto failure = co_await failure_of(connect_by_tcp(listener.port(), remote));
  expect_error(failure, errc::not_trusted, {std::to_string(listener.port()), words});
  expect_error(failure, errc::not_trusted, {"TANDEM_SECRET_FILE"});
  co_await counted(listener, 1);
  if (!local.job_secret.empty()) co_await trusted_peer(listener);
}

TEST(tcp_trust, another_secret_is_refused_on_both_sides) {
  expect_log("it closed the connection without a proof");
  run_test(refused_with(with_secret(), with_secret(other_secret), "has a different job secret"));
}
TEST(tcp_trust, a_peer_without_a_secret_is_refused) {
  expect_log("has a job secret, the connecting peer has none");
  run_test(refused_with(with_secret(), small_settings(), "has a job secret"));
}
TEST(tcp_trust, a_listener_without_a_secret_is_refused) {
  expect_log("has no job secret, the connecting peer has one");
  run_test(refused_with(small_settings(), with_secret(), "has no job secret"));
}

TEST(tcp_trust, with_a_secret_other_addresses_are_allowed) {
  const auto body = []() -> awaitable<void> {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    tcp::listener listener(executor, "0.0.0.0", 0, with_secret());
    co_await trusted_peer(listener);
    EXPECT_EQ(listener.rejected_connections(), 0u);
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

transport::wire_hello as_hello(const std::string& text) {
  transport::wire_hello wire;
  std::memcpy(wire.data(), text.data(), wire.size());
  return wire;
}

std::string keyed_hello() {
  transport::hello local;
  local.limits = protocol::offered(small_settings());
  local.keyed = true;
  transport::wire_hello wire;
  transport::encode(local, wire);
  return as_text(wire);
}

awaitable<half_open> start_handshake(tcp::listener& listener) {
  raw_socket socket = co_await raw_connect(listener.port());
  const std::string hello = keyed_hello();
  co_await send_raw(socket, hello);
  const std::string answer =
      co_await receive_raw(socket, transport::hello_bytes + trust::digest_bytes);
  require(answer.size() == transport::hello_bytes + trust::digest_bytes, "no answer with a proof");
  co_return half_open{std::move(socket), hello, answer};
}

enum class forgery { reflected, of_another_key, of_another_step, frames };

std::string forged_proof(forgery what, const half_open& to) {
  const transport::wire_hello local = as_hello(to.hello), remote = as_hello(to.answer);
  const secret right = transport::pair_key(with_secret());
  switch (what) {
    case forgery::reflected:
      return to.answer.substr(transport::hello_bytes);
    case forgery::of_another_key:
      return as_text(transport::prove(transport::step::connector,
                                      transport::pair_key(with_secret(other_secret)), local,
                                      remote));
    case forgery::of_another_step:
      return as_text(transport::prove(transport::step::accepted, right, local, remote));
    case forgery::frames:
      break;
  }
  protocol::wire_frame frame;
  protocol::encode(protocol::frame{}, frame);
  return as_text(frame);
}

awaitable<void> drops_forgery(forgery what) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, with_secret());
  half_open peer = co_await start_handshake(listener);
  co_await send_raw(peer.socket, forged_proof(what, peer));
  const std::string rest = co_await receive_all(peer.socket);
  EXPECT_EQ(rest, "");
  co_await counted(listener, 1);
  co_await trusted_peer(listener);
}

class tcp_forgeries : public testing::TestWithParam<forgery> {};
TEST_P(tcp_forgeries, are_dropped) {
  expect_log("job secret mismatch");
  run_test(drops_forgery(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(tcp, tcp_forgeries,
                         testing::Values(forgery::reflected, forgery::of_another_key,
                                         forgery::of_another_step, forgery::frames));

/// The same raw peer with a valid proof is accepted: only the content of the forged ones was wrong.
awaitable<void> accepts_valid_proof() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, with_secret());
  half_open peer = co_await start_handshake(listener);
  const transport::wire_hello local = as_hello(peer.hello), remote = as_hello(peer.answer);
  const secret key = transport::pair_key(with_secret());
  transport::proof given;
  std::memcpy(given.data(), peer.answer.data() + transport::hello_bytes, given.size());
  EXPECT_TRUE(transport::is_proof(given, transport::step::listener, key, local, remote));
  const std::string valid_proof =
      as_text(transport::prove(transport::step::connector, key, local, remote));
  co_await send_raw(peer.socket, valid_proof);
  std::unique_ptr<channel> made = co_await listener.accept();
  const std::string last = co_await receive_raw(peer.socket, trust::digest_bytes);
  EXPECT_EQ(last, as_text(transport::prove(transport::step::accepted, key, local, remote)));
  // Replays the recorded handshake.
  raw_socket again = co_await raw_connect(listener.port());
  co_await send_raw(again, peer.hello + valid_proof);
  const std::string rest = co_await receive_all(again);
  EXPECT_EQ(rest.size(), transport::hello_bytes + trust::digest_bytes);
  co_await counted(listener, 1);
}

TEST(tcp_trust, a_recorded_handshake_is_rejected) {
  expect_log("job secret mismatch");
  run_test(accepts_valid_proof());
}

awaitable<void> silent_after_half_a_proof() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, with_secret());
  half_open peer = co_await start_handshake(listener);
  co_await send_raw(peer.socket, std::string(16, 'p'));
  co_await trusted_peer(listener);  // is not delayed
  EXPECT_EQ(listener.rejected_connections(), 0u);
  co_await receive_all(peer.socket);  // until the handshake timeout
  co_await counted(listener, 1);
}

TEST(tcp_trust, a_proof_must_arrive_within_five_seconds) {
  expect_log("not done within 5 s");
  run_test(silent_after_half_a_proof(), drive::by_asio, 60s);
}

/// A listener without the key, or one that replays a recorded answer, gets no frame.
awaitable<void> impostor(asio::ip::tcp::acceptor& at, std::string words, std::string& received) {
  raw_socket incoming = co_await at.async_accept(asio::use_awaitable);
  co_await receive_raw(incoming, transport::hello_bytes);
  co_await send_raw(incoming, std::move(words));
  received = co_await receive_all(incoming);
}

awaitable<void> impostor_is_refused(bool with_recorded_proof) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, with_secret());
  half_open recorded = co_await start_handshake(listener);
  recorded.socket.close();
  std::string words = recorded.answer;
  if (!with_recorded_proof) words.resize(transport::hello_bytes);
  if (!with_recorded_proof) words += std::string(trust::digest_bytes, 'p');
  const asio::ip::tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
  asio::ip::tcp::acceptor acceptor(executor, any);
  std::string received;
  background server(executor, impostor(acceptor, words, received));
  const auto failure =
      co_await failure_of(connect_by_tcp(acceptor.local_endpoint().port(), with_secret()));
  expect_error(failure, errc::not_trusted, {"has a different job secret"});
  co_await server.result();
  EXPECT_EQ(received, "");
}

TEST(tcp_trust, an_impostor_with_a_recorded_proof_is_refused) {
  expect_log("it closed the connection without a proof");
  run_test(impostor_is_refused(true));
}
TEST(tcp_trust, an_impostor_with_a_guess_is_refused) {
  expect_log("it closed the connection without a proof");
  run_test(impostor_is_refused(false));
}

}  // namespace
}  // namespace tandem::test
