#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "fabric/handshake.hpp"
#include "sealed/connection.hpp"

namespace tandem::transport {

/// Configures a connected socket: no delay, buffer sizes and congestion control as set, keepalive
/// to detect a lost host.
void configure(asio::ip::tcp::socket& socket, const settings& options);
/// Sets the congestion control of a connected socket as the settings name it. Default: reno where
/// both ends are on this host, the system's elsewhere. Within a host there is no queue to share,
/// while a pacing algorithm (BBR) sends from timers, which reduces the rate of long messages
/// (`bench/rails`, the loopback rows). Reno is in every kernel and permitted for every user.
void choose_congestion(asio::ip::tcp::socket& of, const settings& options);

/// @par Errors `errc::bad_option`: this kernel lacks the algorithm that the settings name, or does
///   not permit it.
void check_congestion(const settings& options);

/// "127.0.0.1:29500".
std::string to_text(const asio::ip::tcp::endpoint& endpoint);
/// The peer's address, for the log.
std::string describe_peer(const asio::ip::tcp::socket& incoming);

/// Optional arguments of `connect_and_handshake`.
struct connect_options {
  /// Called with each open socket before it connects, to bind it; an exception ends the call.
  std::function<void(asio::ip::tcp::socket&)> prepare;
  /// If set, receives why the last attempt to connect failed.
  error_code* failure = nullptr;
  /// If set, collects the attempts and their failures, in addition to those of earlier calls.
  detail::connect_tries* tries = nullptr;
  /// The peer has listened before: a refused connection means that it will not listen again.
  bool refusal_is_final = false;
};

/// Connects, sends `local` and reads the peer's hello into `answer`. With a key, both ends prove
/// it, and the keys of the connection are derived from it where the settings ask for encryption.
/// Throws for every status but `accepted` and `crossed`. Tries the addresses in turn until
/// `options.meet_timeout`, while nothing answers or the peer closes the connection before the
/// handshake (too many connections were waiting there).
asio::awaitable<sealed::connection> connect_and_handshake(
    std::vector<asio::ip::tcp::endpoint> where, hello local, secret key, settings options,
    hello& answer, connect_options extra = {});

/// Reads a hello from a new connection. False: not a Tandem peer; `why` holds the reason.
asio::awaitable<bool> read_hello(asio::ip::tcp::socket& from, received_hello& remote,
                                 std::string& why);

/// Resolves a host name. @par Errors `errc::unreachable`: it has no address, or the resolver does
/// not answer within `limit`.
asio::awaitable<std::vector<asio::ip::tcp::endpoint>> resolve(std::string host, std::uint16_t port,
                                                              std::chrono::milliseconds limit);

/// Opens a listening socket; at other addresses than loopback only with a key or
/// `settings::insecure`.
asio::ip::tcp::acceptor listen(const asio::any_io_executor& executor, const std::string& address,
                               std::uint16_t port, const secret& key, const settings& options);

}  // namespace tandem::transport
