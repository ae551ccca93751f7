#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <tandem/detail/quiet.hpp>

#include "sealed/keys.hpp"
#include "tcp/hello.hpp"
#include "tcp/proof.hpp"

/// The handshake of a new connection, over any kind of stream socket. A socket type provides
/// `read_hello(socket, heard_hello&, why)` and, where something is sent along with the hello,
/// `send_hello(socket, wire_hello)`.
namespace tandem::tcp {

/// A received hello, decoded and as received.
struct heard_hello {
  hello says;
  wire_hello wire{};
};

/// The handshake timeout.
constexpr std::chrono::seconds hello_limit{5};

/// Descriptors that are exhausted for longer will not become free by themselves. Shorter than
/// `hello_limit`, so that a waiting peer gets the reason.
constexpr std::chrono::seconds longest_lack{2};

constexpr auto closed_at_once = "it closed the connection before the handshake";

/// Decodes the bytes received so far: a hello (true; `says`), something else (false; `why`), or
/// incomplete (empty).
std::optional<bool> come_to_know(std::span<const std::byte> so_far, hello& says, std::string& why);

/// Ignores errors: the missing answer of the peer reports them.
template <class Socket>
asio::awaitable<void> send(Socket& to, std::span<const std::byte> bytes) {
  using detail::quiet;
  co_await asio::async_write(to, asio::buffer(bytes.data(), bytes.size()), quiet);
}

template <class Socket>
asio::awaitable<void> send_hello(Socket& to, const wire_hello& encoded) {
  return send(to, encoded);
}

/// False: the connection ended instead; `why` holds the reason.
template <class Socket>
asio::awaitable<bool> read_proof(Socket& from, proof& given, std::string& why) {
  using detail::quiet;
  const auto [failure, n] = co_await asio::async_read(from, asio::buffer(given), quiet);
  if (failure == asio::error::operation_aborted) throw error(failure);
  if (!failure) co_return true;
  why = n == 0 ? closed_at_once : "it closed the connection during authentication";
  co_return false;
}

/// The connecting side's error for a wrong proof.
error other_secret(const std::string& where);

/// Both proofs, and the listener's decision. False: the connection ended; `why` holds the reason.
template <class Socket>
asio::awaitable<bool> exchange_proofs(Socket& socket, const secret& key, const wire_hello& mine,
                                      heard_hello& theirs, const std::string& where,
                                      std::string& why) {
  proof given;
  const bool first = co_await read_proof(socket, given, why);
  if (!first) co_return false;
  if (!is_proof(given, step::listener, key, mine, theirs.wire)) throw other_secret(where);
  const proof ours = prove(step::connector, key, mine, theirs.wire);
  co_await send(socket, ours);
  const bool second = co_await read_proof(socket, given, why);
  if (!second) co_return false;
  if (is_proof(given, step::crossed, key, mine, theirs.wire)) {
    theirs.says.answer = verdict::crossed;
  } else if (!is_proof(given, step::welcome, key, mine, theirs.wire)) {
    throw other_secret(where);
  }
  co_return true;
}

/// Throws for every status but `accepted` and `crossed`.
void check_answer(hello& answer, const hello& mine, const std::string& where);

/// The connecting side of the handshake, up to the status, and the keys of the connection where
/// `mine` asks for encryption. `known` becomes false where the peer does not speak the protocol or
/// closes the connection; `why` holds the reason.
template <class Socket>
asio::awaitable<void> introduce(Socket& socket, hello mine, const secret& key,
                                const std::string& where, hello& answer, sealed::keys& seal,
                                std::string& why, bool& known) {
  if (mine.keyed) trust::random_bytes(mine.once);
  wire_hello sent;
  encode(mine, sent);
  co_await send_hello(socket, sent);
  heard_hello theirs;
  known = co_await read_hello(socket, theirs, why);
  if (!known) co_return;
  check_answer(theirs.says, mine, where);
  // A keyed listener decides in its last proof, and only there.
  if (mine.keyed && theirs.says.answer != verdict::welcome) {
    throw refusal(theirs.says, mine, where);
  }
  if (mine.keyed) known = co_await exchange_proofs(socket, key, sent, theirs, where, why);
  if (mine.sealed) {
    seal = sealed::derive_keys(key, sent, theirs.wire, sealed::side::connector);
  }
  answer = theirs.says;
}

}  // namespace tandem::tcp
