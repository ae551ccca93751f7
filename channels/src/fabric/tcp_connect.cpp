#include "fabric/tcp_connect.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/name_lookup.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/detail/resources.hpp>

namespace tandem::transport {
namespace {

using detail::quiet;

asio::awaitable<void> connect_once(asio::ip::tcp::socket& socket, asio::ip::tcp::endpoint to,
                                   error_code& result) {
  const auto [failure] = co_await socket.async_connect(to, quiet);
  if (failure == asio::error::operation_aborted) throw error(failure);
  result = failure;
}

/// Limit of one attempt where there are several addresses, to leave time for the others.
constexpr std::chrono::seconds per_address_timeout{3};

/// The same with a timeout: a firewall may drop packets silently.
asio::awaitable<void> connect_within(std::chrono::nanoseconds limit, asio::ip::tcp::socket& socket,
                                     asio::ip::tcp::endpoint to, error_code& result) {
  try {
    co_await with_deadline(limit, connect_once(socket, to, result), "connect to " + to_text(to));
  } catch (const error& late) {
    if (late.code() != errc::timed_out) throw;
    result = asio::error::timed_out;
  }
}

std::string name_of(int rank, const hello& local, const char* otherwise) {
  return local.size > 0 && rank >= 0 ? fmt::format("rank {}", rank) : otherwise;
}

error unreachable_error(const detail::connect_tries& tries, const hello& local,
                        const settings& options) {
  return error(
      errc::unreachable,
      fmt::format("no connection within {}: {}", detail::to_text(options.meet_timeout),
                  tries.text()),
      tries.advice(name_of(local.from, local, "this process"), name_of(local.to, local, "the peer"),
                   "is it running, and is the address right?"));
}

error not_tandem_error(const std::string& where, const std::string& why) {
  return error(errc::not_tandem,
               fmt::format("{} does not speak the Tandem protocol: {}", where, why),
               "is the port right?");
}

}  // namespace

void configure(asio::ip::tcp::socket& socket, const settings& options) {
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  // Detects a host that disappears: 5 s idle, then 3 probes a second apart; unacknowledged data
  // 10 s.
  using keep_idle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using keep_interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  using keep_count = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
  using user_timeout = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
  socket.set_option(keep_idle(5), ignored);
  socket.set_option(keep_interval(1), ignored);
  socket.set_option(keep_count(3), ignored);
  socket.set_option(user_timeout(10'000), ignored);
  if (options.socket_buffer_bytes > 0) {
    const int bytes = static_cast<int>(options.socket_buffer_bytes);
    socket.set_option(asio::socket_base::send_buffer_size(bytes), ignored);
    socket.set_option(asio::socket_base::receive_buffer_size(bytes), ignored);
  }
  choose_congestion(socket, options);
}

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  return detail::to_text(endpoint);
}

std::string describe_peer(const asio::ip::tcp::socket& incoming) {
  error_code ignored;
  return to_text(incoming.remote_endpoint(ignored));
}

asio::awaitable<bool> read_hello(asio::ip::tcp::socket& from, received_hello& remote,
                                 std::string& why) {
  wire_hello& wire = remote.wire;
  std::size_t have = 0;
  for (;;) {
    const auto room = asio::buffer(wire.data() + have, wire.size() - have);
    const auto [failure, n] = co_await from.async_read_some(room, quiet);
    if (failure == asio::error::operation_aborted) throw error(failure);
    if (failure) {
      why = have == 0 ? closed_before_handshake : "it closed the connection during the hello";
      co_return false;
    }
    have += n;
    const std::span<const std::byte> so_far(wire.data(), have);
    const std::optional<bool> known = parse_hello(so_far, remote.fields, why);
    if (known) co_return *known;
  }
}

asio::awaitable<sealed::connection> connect_and_handshake(
    std::vector<asio::ip::tcp::endpoint> where, hello local, secret key, settings options,
    hello& answer, connect_options extra) {
  check_encryption(options, key);
  check_congestion(options);
  local.keyed = !key.empty();
  local.sealed = options.encrypt;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto began = std::chrono::steady_clock::now();
  const auto give_up = began + options.meet_timeout;
  std::chrono::milliseconds pause{10};
  asio::steady_timer timer(executor);
  detail::connect_tries own_tries;
  detail::connect_tries& tries = extra.tries != nullptr ? *extra.tries : own_tries;
  for (std::size_t attempt = 0;; ++attempt) {
    const asio::ip::tcp::endpoint to = where[attempt % where.size()];
    asio::ip::tcp::socket socket(executor);
    error_code failure;
    detail::open(socket, to.protocol(), failure);
    const bool lacks = detail::is_exhausted(failure, detail::resource::descriptor);
    if (failure && !lacks) throw error(failure);
    if (!failure) {
      if (extra.prepare) extra.prepare(socket);
      std::chrono::nanoseconds limit = give_up - std::chrono::steady_clock::now();
      if (where.size() > 1) limit = std::min<std::chrono::nanoseconds>(limit, per_address_timeout);
      limit = std::max(limit, std::chrono::nanoseconds{1});
      co_await connect_within(limit, socket, to, failure);
      if (failure) tries.failed(to, failure, limit);
    }
    std::string why;
    if (extra.failure != nullptr) *extra.failure = failure;
    if (!failure) {
      configure(socket, options);
      bool known = false;
      const std::string name = to_text(to);
      sealed::keys seal;
      co_await with_deadline(
          handshake_timeout, client_handshake(socket, local, key, name, answer, seal, why, known),
          "hello of " + name,
          "connection accepted, but no handshake: does a live Tandem rank listen "
          "there, and does no firewall drop packets of open connections?");
      if (known) co_return sealed::connection(std::move(socket), std::move(seal));
    }
    const auto next = std::chrono::steady_clock::now() + pause;
    if (lacks && (next - began >= exhaustion_timeout || next >= give_up)) {
      throw detail::exhausted(failure.value(), detail::resource::descriptor,
                              "cannot open a socket to " + to_text(to));
    }
    const bool is_silent = failure || why == closed_before_handshake;
    const bool is_gone = extra.refusal_is_final && failure == asio::error::connection_refused;
    if (!is_silent || is_gone || next >= give_up) {
      if (!failure) throw not_tandem_error(to_text(to), why);
      throw unreachable_error(tries, local, options);
    }
    if ((attempt + 1) % where.size() != 0) continue;
    timer.expires_after(pause);
    co_await timer.async_wait(asio::use_awaitable);
    pause = std::min(pause * 2, std::chrono::milliseconds(200));
  }
}

namespace {

/// The address that the text is, with or without brackets; empty: it is a name.
std::optional<asio::ip::address> address_in(const std::string& text) {
  const bool has_brackets = text.starts_with('[') && text.ends_with(']');
  const auto found = detail::numeric_address(has_brackets ? text.substr(1, text.size() - 2) : text);
  if (found && found->is_v6() && found->to_v6().is_link_local() && found->to_v6().scope_id() == 0) {
    throw error(errc::bad_input,
                fmt::format("{} is a link-local address without its interface", text),
                "add it (fe80::1%eth0), or give an address that all hosts can use");
  }
  return found;
}

}  // namespace

asio::awaitable<std::vector<asio::ip::tcp::endpoint>> resolve(std::string host, std::uint16_t port,
                                                              std::chrono::milliseconds limit) {
  std::vector<asio::ip::tcp::endpoint> all;
  if (const std::optional<asio::ip::address> number = address_in(host)) {
    all.emplace_back(*number, port);
    co_return all;
  }
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  detail::name_lookup question(executor, host);
  const std::optional<detail::name_addresses> answer =
      co_await question.until(std::chrono::steady_clock::now() + limit);
  if (!answer) {
    throw error(errc::unreachable,
                fmt::format("no address for host '{}': the resolver has not answered within {}",
                            host, detail::to_text(limit)),
                "check the name servers (/etc/resolv.conf)");
  }
  if (answer->found.empty()) {
    throw error(errc::unreachable,
                fmt::format("no address for host '{}': {}", host, answer->why_none),
                "is the name right?");
  }
  for (const asio::ip::address& one : answer->found) all.emplace_back(one, port);
  co_return all;
}

asio::ip::tcp::acceptor listen(const asio::any_io_executor& executor, const std::string& address,
                               std::uint16_t port, const secret& key, const settings& options) {
  check_encryption(options, key);
  check_congestion(options);
  const std::optional<asio::ip::address> numeric = address_in(address);
  if (!numeric) {
    throw error(errc::bad_input, fmt::format("'{}' is not a numeric IP address", address),
                "give an address like 127.0.0.1");
  }
  const asio::ip::address where = *numeric;
  error_code failure;
  if (!where.is_loopback() && !options.insecure && key.empty()) {
    throw error(errc::bad_input, fmt::format("{} is not a loopback address", address),
                "without a job secret (TANDEM_SECRET_FILE) ranks listen on loopback only; "
                "TANDEM_INSECURE=1 lifts this");
  }
  const asio::ip::tcp::endpoint endpoint(where, port);
  asio::ip::tcp::acceptor acceptor(executor);
  detail::open(acceptor, endpoint.protocol(), failure);
  if (!failure) acceptor.set_option(asio::socket_base::reuse_address(true), failure);
  if (!failure) acceptor.bind(endpoint, failure);
  if (!failure) acceptor.listen(asio::socket_base::max_listen_connections, failure);
  if (!failure) acceptor.native_non_blocking(true, failure);
  if (failure == asio::error::address_in_use && port == 0) {
    throw detail::no_port_left("cannot listen at " + address);
  }
  if (failure == asio::error::address_in_use) {
    throw error(errc::address_in_use, fmt::format("another process holds {}", to_text(endpoint)),
                "end it or choose another port");
  }
  if (detail::is_exhausted(failure, detail::resource::descriptor)) {
    throw detail::exhausted(failure.value(), detail::resource::descriptor,
                            fmt::format("cannot open a socket to listen at {}", to_text(endpoint)));
  }
  if (failure) {
    throw error(errc::bad_input,
                fmt::format("cannot listen at {}: {}", to_text(endpoint), failure.message()),
                "choose an address of this host");
  }
  return acceptor;
}

}  // namespace tandem::transport
