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

#include "fabric/hello.hpp"
#include "fabric/proof.hpp"
#include "protocol/session.hpp"
#include "sealed/connection.hpp"

/// The handshake of a new connection, over any kind of stream socket. A socket type provides
/// `read_hello(socket, received_hello&, why)` and, where something is sent along with the hello,
/// `send_hello(socket, wire_hello)`.
namespace tandem::transport {

/// A received hello, decoded and as received.
struct received_hello {
  hello fields;
  wire_hello wire{};
};

/// The handshake timeout.
constexpr std::chrono::seconds handshake_timeout{5};

/// Descriptors that are exhausted for longer will not become free by themselves. Shorter than
/// `handshake_timeout`, so that a waiting peer gets the reason.
constexpr std::chrono::seconds exhaustion_timeout{2};

constexpr auto closed_before_handshake = "it closed the connection before the handshake";

/// Decodes the bytes received so far: a hello (true; `fields`), something else (false; `why`), or
/// incomplete (empty).
std::optional<bool> parse_hello(std::span<const std::byte> so_far, hello& fields, std::string& why);

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
  why = n == 0 ? closed_before_handshake : "it closed the connection during authentication";
  co_return false;
}

/// The connecting side's error for a wrong proof.
error secret_mismatch(const std::string& where);

/// Both proofs, and the listener's decision. False: the connection ended; `why` holds the reason.
template <class Socket>
asio::awaitable<bool> exchange_proofs(Socket& socket, const secret& key, const wire_hello& local,
                                      received_hello& remote, const std::string& where,
                                      std::string& why) {
  proof given;
  const bool first = co_await read_proof(socket, given, why);
  if (!first) co_return false;
  if (!is_proof(given, step::listener, key, local, remote.wire)) throw secret_mismatch(where);
  const proof ours = prove(step::connector, key, local, remote.wire);
  co_await send(socket, ours);
  const bool second = co_await read_proof(socket, given, why);
  if (!second) co_return false;
  if (is_proof(given, step::crossed, key, local, remote.wire)) {
    remote.fields.answer = handshake_status::crossed;
  } else if (!is_proof(given, step::accepted, key, local, remote.wire)) {
    throw secret_mismatch(where);
  }
  co_return true;
}

/// Throws for every status but `accepted` and `crossed`.
void check_answer(hello& answer, const hello& local, const std::string& where);

/// The connecting side of the handshake, up to the status, and the keys of the connection where
/// `local` asks for encryption. `known` becomes false where the peer does not speak the protocol or
/// closes the connection; `why` holds the reason.
template <class Socket>
asio::awaitable<void> client_handshake(Socket& socket, hello local, const secret& key,
                                       const std::string& where, hello& answer, sealed::keys& seal,
                                       std::string& why, bool& known) {
  if (local.keyed) trust::random_bytes(local.once);
  wire_hello sent;
  encode(local, sent);
  co_await send_hello(socket, sent);
  received_hello remote;
  known = co_await read_hello(socket, remote, why);
  if (!known) co_return;
  check_answer(remote.fields, local, where);
  // A keyed listener decides in its last proof, and only there.
  if (local.keyed && remote.fields.answer != handshake_status::accepted) {
    throw refusal(remote.fields, local, where);
  }
  if (local.keyed) known = co_await exchange_proofs(socket, key, sent, remote, where, why);
  if (local.sealed) {
    seal = sealed::derive_keys(key, sent, remote.wire, sealed::side::connector);
  }
  answer = remote.fields;
}

/// How the link of a connection names its two ends in errors, after a handshake by either side.
protocol::identity identity_of(const hello& local, const hello& remote, std::string rail);

}  // namespace tandem::transport
