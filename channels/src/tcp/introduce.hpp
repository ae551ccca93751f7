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

/// Who is there? What both sides of a fresh connection say first, over any kind of stream socket.
/// A kind says how it reads and sends a hello: `read_hello(socket, heard_hello&, why)` and, where
/// something goes with it, `send_hello(socket, wire_hello)`, beside its socket.
namespace tandem::tcp {

/// A hello as it was read.
struct heard_hello {
  hello says;
  wire_hello wire{};
};

/// A stranger has so long to say who he is.
constexpr std::chrono::seconds hello_limit{5};

/// A lack of descriptors that lasts longer does not pass by itself. Shorter than `hello_limit`: who
/// waits for an answer hears of it.
constexpr std::chrono::seconds longest_lack{2};

constexpr auto closed_at_once = "it closed the connection before the handshake";

/// What the words so far are: a hello (true; `says`), somebody else's (false; `why`), or not enough
/// (empty).
std::optional<bool> come_to_know(std::span<const std::byte> so_far, hello& says, std::string& why);

/// The answer, or its absence, tells what a failed write would.
template <class Socket>
asio::awaitable<void> send(Socket& to, std::span<const std::byte> bytes) {
  using detail::quiet;
  co_await asio::async_write(to, asio::buffer(bytes.data(), bytes.size()), quiet);
}

template <class Socket>
asio::awaitable<void> send_hello(Socket& to, const wire_hello& said) {
  return send(to, said);
}

/// False: the connection ended instead; `why` says how.
template <class Socket>
asio::awaitable<bool> read_proof(Socket& from, proof& given, std::string& why) {
  using detail::quiet;
  const auto [failure, n] = co_await asio::async_read(from, asio::buffer(given), quiet);
  if (failure == asio::error::operation_aborted) throw error(failure);
  if (!failure) co_return true;
  why = n == 0 ? closed_at_once : "it closed the connection during authentication";
  co_return false;
}

/// The connecting side's complaint.
error other_secret(const std::string& where);

/// Both proofs, and the listener's decision. False: it ended the connection; `why` says how.
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

/// Throws for every verdict but welcome and crossed.
void check_answer(hello& answer, const hello& mine, const std::string& where);

/// The connecting side, up to the verdict, and the keys of what follows where `mine` says that it
/// is sealed. `known` becomes false where another program, or nobody, answers; `why` says what
/// came.
template <class Socket>
asio::awaitable<void> introduce(Socket& socket, hello mine, const secret& key,
                                const std::string& where, hello& answer, sealed::keys& seal,
                                std::string& why, bool& known) {
  if (mine.keyed) trust::random_bytes(mine.once);
  wire_hello said;
  encode(mine, said);
  co_await send_hello(socket, said);
  heard_hello theirs;
  known = co_await read_hello(socket, theirs, why);
  if (!known) co_return;
  check_answer(theirs.says, mine, where);
  // A keyed listener decides in its last proof, and only there.
  if (mine.keyed && theirs.says.answer != verdict::welcome) {
    throw refusal(theirs.says, mine, where);
  }
  if (mine.keyed) known = co_await exchange_proofs(socket, key, said, theirs, where, why);
  if (mine.sealed) {
    seal = sealed::derive_keys(key, said, theirs.wire, sealed::side::connector);
  }
  answer = theirs.says;
}

}  // namespace tandem::tcp
