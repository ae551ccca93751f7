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

#include "sealed/connection.hpp"
#include "tcp/introduce.hpp"
#include "tcp/link.hpp"

namespace tandem::tcp {

/// What a connected socket of ours looks like: no delay, buffers and congestion control as set, a
/// vanished host noticed.
void configure(asio::ip::tcp::socket& socket, const settings& options);
/// "127.0.0.1:29500".
std::string to_text(const asio::ip::tcp::endpoint& endpoint);
/// Who is at the other end of it, for the log.
std::string describe_guest(const asio::ip::tcp::socket& guest);

/// What a caller may want of the sockets that `dial` makes.
struct dial_wishes {
  /// Called with each fresh, open socket, to bind it; what it throws ends the call.
  std::function<void(asio::ip::tcp::socket&)> prepare;
  /// Where given: why the last attempt to connect failed.
  error_code* failure = nullptr;
  /// Where given: takes what was tried and why it failed, beside what is there from other calls.
  detail::connect_tries* tries = nullptr;
  /// It listened once: where nobody does any more, nobody will again.
  bool refusal_is_final = false;
};

/// Connects, says `mine` and reads the answer into `answer`; with a key, proves it, has it proven,
/// and derives the keys of what follows from it where the settings want that. Throws for every
/// verdict but welcome and crossed. Tries the addresses in turn, again and again until
/// `options.meet_timeout`, while nobody answers or the door is closed without a word (too many were
/// waiting there).
asio::awaitable<sealed::connection> dial(std::vector<asio::ip::tcp::endpoint> where, hello mine,
                                         secret key, settings options, hello& answer,
                                         dial_wishes wishes = {});

/// Reads a hello from a fresh connection. False: a stranger; `why` says what came.
asio::awaitable<bool> read_hello(asio::ip::tcp::socket& from, heard_hello& theirs,
                                 std::string& why);

/// Looks a name up. @par Errors `errc::unreachable`.
asio::awaitable<std::vector<asio::ip::tcp::endpoint>> resolve(std::string host, std::uint16_t port);

/// Opens a listening socket. Beyond loopback only with a key, or `settings::insecure`.
asio::ip::tcp::acceptor listen(const asio::any_io_executor& executor, const std::string& address,
                               std::uint16_t port, const secret& key, const settings& options);

std::shared_ptr<link> make_link(sealed::connection over, const hello& mine, const hello& theirs,
                                const settings& options);

}  // namespace tandem::tcp
