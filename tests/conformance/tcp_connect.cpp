// Connecting: which peers are accepted, which errors they get, and that unauthenticated connections
// delay nobody.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "conformance/raw_peer.hpp"
#include "support/channel_case.hpp"
#include "support/expected_log.hpp"
#include "support/reserved_port.hpp"

namespace tandem::test {
namespace {

settings short_meet_timeout() {
  settings s = small_settings();
  s.meet_timeout = 300ms;
  return s;
}

awaitable<std::unique_ptr<channel>> good_peer(tcp::listener& listener) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::unique_ptr<channel> remote = co_await tcp::connect("127.0.0.1", listener.port());
  std::unique_ptr<channel> local = co_await listener.accept();
  co_await expect_usable(*local, *remote);
  co_return local;
}

awaitable<void> rejects_bytes(std::string bytes, bool close_after) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0);
  raw_socket peer = co_await raw_connect(listener.port());
  co_await send_raw(peer, std::move(bytes));
  if (close_after) peer.shutdown(raw_socket::shutdown_send);
  co_await receive_all(peer);  // until it is dropped
  const auto is_counted = [&listener] { return listener.rejected_connections() == 1; };
  co_await until(is_counted, "the rejected connection to be counted");
  co_await good_peer(listener);
}

TEST(tcp_listener, drops_garbage) {
  expect_log("it sent '\\xff\\xff");
  run_test(rejects_bytes(std::string(500, '\xff'), false));
}
TEST(tcp_listener, drops_http) {
  expect_log("it sent 'GET / HTTP/1.1");
  run_test(rejects_bytes("GET / HTTP/1.1\r\nHost: here\r\n\r\n", false));
}
TEST(tcp_listener, drops_a_peer_that_closes_in_mid_hello) {
  expect_log("during the hello");
  run_test(rejects_bytes("TNDMHELO\x01", true));
}
TEST(tcp_listener, drops_a_peer_that_closes_at_once) {
  expect_log("before the handshake");
  run_test(rejects_bytes("", true));
}
TEST(tcp_listener, drops_a_damaged_hello) {
  expect_log("its hello is corrupt");
  run_test(rejects_bytes(std::string("TNDMHELO\x01\0\0\0", 12) + std::string(84, '\0'), false));
}

awaitable<void> silent_after_half_a_hello() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0);
  raw_socket peer = co_await raw_connect(listener.port());
  co_await send_raw(peer, std::string("TNDMHELO\x01"));
  co_await good_peer(listener);  // is not delayed
  EXPECT_EQ(listener.rejected_connections(), 0u);
  co_await receive_all(peer);  // until the handshake timeout
  const auto is_counted = [&listener] { return listener.rejected_connections() == 1; };
  co_await until(is_counted, "the rejected connection to be counted");
}

TEST(tcp_listener, drops_a_peer_silent_after_half_a_hello) {
  expect_log("not done within 5 s");
  run_test(silent_after_half_a_hello(), drive::by_asio, 60s);
}

awaitable<void> connect_many() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0);
  std::vector<raw_socket> idle;
  for (int i = 0; i < 200; ++i) {
    raw_socket one = co_await raw_connect(listener.port());
    idle.push_back(std::move(one));
  }
  for (int i = 0; i < 5; ++i) co_await good_peer(listener);
  EXPECT_GE(listener.rejected_connections(), 100u);
}

TEST(tcp_listener, accepts_a_peer_among_idle_connections) {
  expect_log("newer connections are waiting");
  run_test(connect_many());
}

awaitable<void> other_version() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0);
  raw_socket peer = co_await raw_connect(listener.port());
  transport::hello remote;
  remote.version = 77;
  co_await send_raw(peer, remote);
  const std::string answer = co_await receive_all(peer);
  transport::hello local;
  const auto* first = reinterpret_cast<const std::byte*>(answer.data());
  EXPECT_EQ(transport::decode(std::span(first, answer.size()), local),
            transport::decode_status::complete);
  EXPECT_EQ(local.answer, transport::handshake_status::wrong_version);
  EXPECT_EQ(listener.rejected_connections(), 1u);
}

TEST(tcp_listener, answers_another_version_with_its_own) {
  expect_log("77");
  run_test(other_version());
}

awaitable<void> refused_addresses() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0);
  const auto try_to_listen = [&executor](const char* address, std::uint16_t port,
                                         const settings& options) -> std::optional<error> {
    try {
      tcp::listener other(executor, address, port, options);
      return {};
    } catch (const error& e) {
      return e;
    }
  };
  expect_error(try_to_listen("127.0.0.1", listener.port(), {}), errc::address_in_use,
               {std::to_string(listener.port()), "choose another port"});
  expect_error(try_to_listen("0.0.0.0", 0, {}), errc::bad_input, {"loopback", "TANDEM_INSECURE"});
  expect_error(try_to_listen("::", 0, {}), errc::bad_input, {"loopback"});
  expect_error(try_to_listen("example", 0, {}), errc::bad_input, {"'example'"});
  settings insecure;
  insecure.insecure = true;
  EXPECT_FALSE(try_to_listen("0.0.0.0", 0, insecure));
}

TEST(tcp_listener, refuses_addresses_with_a_reason) {
  run_test(refused_addresses());
}

awaitable<void> close_listener() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0);
  std::unique_ptr<channel> never_accepted = co_await tcp::connect("127.0.0.1", listener.port());
  std::unique_ptr<channel> first = co_await listener.accept();
  std::unique_ptr<channel> second = co_await tcp::connect("127.0.0.1", listener.port());
  co_await turns(50);
  listener.close();
  const auto orphaned = co_await failure_of(second->recv(0, mutable_view()));
  EXPECT_TRUE(orphaned &&
              (orphaned->code() == errc::peer_closed || orphaned->code() == errc::peer_lost));
  std::exception_ptr caught;
  try {
    co_await listener.accept();
  } catch (...) {
    caught = std::current_exception();
  }
  expect_error(as_error(caught), errc::channel_closed, {"the listener is closed"});
  co_await expect_usable(*first, *never_accepted);  // accepted channels stay usable
}

TEST(tcp_listener, closes) {
  run_test(close_listener());
}

awaitable<void> connect_only(std::string host, std::uint16_t port, settings options) {
  std::unique_ptr<channel> made = co_await tcp::connect(std::move(host), port, std::move(options));
}

awaitable<void> accept_and_send(asio::ip::tcp::acceptor& at, std::string words) {
  raw_socket incoming = co_await at.async_accept(asio::use_awaitable);
  co_await receive_raw(incoming, transport::hello_bytes);
  co_await send_raw(incoming, std::move(words));
  co_await receive_all(incoming);
}

awaitable<void> answered_with(std::string words, error_code expected,
                              std::vector<std::string> in_text) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const asio::ip::tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
  asio::ip::tcp::acceptor acceptor(executor, any);
  const std::uint16_t port = acceptor.local_endpoint().port();
  background server(executor, accept_and_send(acceptor, std::move(words)));
  const auto failure = co_await failure_of(connect_only("127.0.0.1", port, settings{}));
  expect_error(failure, expected, {std::to_string(port)});
  for (const std::string& word : in_text) expect_error(failure, expected, {word});
  co_await server.result();
}

TEST(tcp_connect, to_another_program) {
  run_test(answered_with("HTTP/1.1 400 Bad Request\r\n\r\n", errc::not_tandem,
                         {"HTTP/1.1 400", "is the port right?"}));
}

TEST(tcp_connect, to_another_version) {
  transport::hello other;
  other.version = 77;
  transport::wire_hello wire;
  transport::encode(other, wire);
  std::string bytes(reinterpret_cast<const char*>(wire.data()), wire.size());
  run_test(answered_with(std::move(bytes), errc::version_mismatch,
                         {"version 77", "this program 1", "same Tandem version"}));
}

TEST(tcp_connect, without_a_listener) {
  const reserved_port port;
  const auto body = [](std::uint16_t to) -> awaitable<void> {
    const auto start = std::chrono::steady_clock::now();
    const auto failure = co_await failure_of(connect_only("127.0.0.1", to, short_meet_timeout()));
    expect_error(failure, errc::unreachable, {std::to_string(to), "no connection within 0.3 s"});
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  };
  run_test(body(port.number()));
}

awaitable<void> late_listener() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const reserved_port port;
  background early(executor, connect_only("localhost", port.number(), settings{}));
  co_await turns(20);
  EXPECT_FALSE(early.is_over());
  tcp::listener listener(executor, "127.0.0.1", port.number());
  std::unique_ptr<channel> made = co_await listener.accept();
  co_await early.result();
}

TEST(tcp_connect, before_the_listener_and_by_name) {
  run_test(late_listener());
}

awaitable<void> cancel_both() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const reserved_port port;
  background connecting(executor, connect_only("127.0.0.1", port.number(), settings{}));
  tcp::listener listener(executor, "127.0.0.1", 0);
  const auto accept_only = [](tcp::listener& at) -> awaitable<void> { co_await at.accept(); };
  background accepting(executor, accept_only(listener));
  co_await turns(10);
  connecting.cancel();
  accepting.cancel();
  const auto of_connect = co_await connecting.failure();
  expect_aborted(of_connect);
  const auto of_accept = co_await accepting.failure();
  expect_aborted(of_accept);
  co_await good_peer(listener);
}

TEST(tcp_connect, can_be_cancelled_and_so_can_accept) {
  run_test(cancel_both());
}

}  // namespace
}  // namespace tandem::test
