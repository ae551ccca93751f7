#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <tandem/async.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "fabric/handshake_server.hpp"
#include "fabric/tcp_connect.hpp"

namespace tandem::transport {

template <class Socket>
basic_handshake_server<Socket>::basic_handshake_server(acceptor at, hello local, secret key,
                                                       settings options, hello_checker check,
                                                       peer_handler on_peer)
    : acceptor_(std::move(at)),
      local_hello_(local),
      key_(std::move(key)),
      options_(std::move(options)),
      check_hello_(std::move(check)),
      on_peer_(std::move(on_peer)),
      at_(acceptor_.local_endpoint()) {
  local_hello_.keyed = !key_.empty();
  local_hello_.sealed = options_.encrypt && may_be_sealed<Socket>;
}

template <class Socket>
void basic_handshake_server<Socket>::run() {
  asio::co_spawn(acceptor_.get_executor(), accept_loop(),
                 [self = this->shared_from_this()](auto...) {});
}

template <class Socket>
void basic_handshake_server<Socket>::close() noexcept {
  closed_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  for (const auto& unknown : unauthenticated_) unknown->close(ignored);
}

template <class Socket>
asio::awaitable<void> basic_handshake_server<Socket>::accept_loop() {
  asio::steady_timer pause(acceptor_.get_executor());
  bool refuses = false;
  while (!closed_) {
    auto [failure] = co_await acceptor_.async_wait(asio::socket_base::wait_read, detail::quiet);
    if (closed_) break;
    typename protocol::socket socket(acceptor_.get_executor());
    if (!failure) detail::accept(acceptor_, socket, failure);
    if (failure == asio::error::would_block) continue;
    if (failure) {
      refuses = may_refuse_next(failure);
      if (refuses) continue;
      // An immediate retry would only waste CPU time.
      pause.expires_after(std::chrono::milliseconds(50));
      co_await pause.async_wait(detail::quiet);
      continue;
    }
    if (!refuses) {
      exhausted_since_.reset();
      spare_.reserve();
    }
    auto incoming = std::make_shared<Socket>(std::move(socket));
    drop_oldest();
    unauthenticated_.push_back(incoming);
    asio::co_spawn(acceptor_.get_executor(), handshake(std::move(incoming), refuses),
                   [self = this->shared_from_this(), refuses](auto...) {
                     if (refuses) self->spare_.reserve();
                   });
    refuses = false;
  }
}

/// Descriptors may be exhausted for a moment, until crossed connections have ended. If that lasts,
/// each peer is accepted with the spare descriptor and refused with the reason.
template <class Socket>
bool basic_handshake_server<Socket>::may_refuse_next(const error_code& failure) {
  const auto now = std::chrono::steady_clock::now();
  dropped_.add("accept",
               "cannot accept connections: " +
                   detail::failure_text(failure.value(), detail::resource::descriptor),
               now);
  if (!detail::is_exhausted(failure, detail::resource::descriptor)) return false;
  if (!exhausted_since_) exhausted_since_ = now;
  return now - *exhausted_since_ >= exhaustion_timeout && spare_.release();
}

/// A rank of the job sends its hello at once, so the connection that has been silent longest goes.
template <class Socket>
void basic_handshake_server<Socket>::drop_oldest() {
  if (unauthenticated_.size() < max_unauthenticated) return;
  error_code ignored;
  Socket& oldest = *unauthenticated_.front();
  count_rejected(
      "crowd", describe_peer(oldest),
      fmt::format("no hello from it, and {} newer connections are waiting", max_unauthenticated));
  oldest.close(ignored);
  unauthenticated_.pop_front();
}

/// Reads the peer's hello and, with a key, exchanges proofs.
template <class Socket>
asio::awaitable<void> basic_handshake_server<Socket>::authenticate(Socket& incoming,
                                                                   handshake_state& its,
                                                                   bool refuses) {
  its.known = co_await read_hello(incoming, its.remote, its.why);
  if (!its.known) co_return;
  const hello& remote = its.remote.fields;
  its.answer = local_hello_;
  its.answer.to = remote.from;
  its.answer.answer = validate_hello(remote, local_hello_);
  if constexpr (requires { incoming.descriptor_lost; })
    refuses = refuses || incoming.descriptor_lost;
  if (refuses && its.answer.answer == handshake_status::accepted)
    its.answer.answer = handshake_status::no_descriptors;
  if (!local_hello_.keyed || its.answer.answer != handshake_status::accepted) co_return;
  trust::random_bytes(its.answer.once);
  encode(its.answer, its.sent_hello);
  std::array<std::byte, hello_bytes + trust::digest_bytes> message;
  const proof ours = prove(step::listener, key_, its.remote.wire, its.sent_hello);
  std::copy(its.sent_hello.begin(), its.sent_hello.end(), message.begin());
  std::copy(ours.begin(), ours.end(), message.begin() + hello_bytes);
  co_await send(incoming, message);
  proof given;
  its.known = co_await read_proof(incoming, given, its.why);
  if (!its.known) {
    its.why = "it closed the connection without a proof: is its job secret different?";
  } else if (!is_proof(given, step::connector, key_, its.remote.wire, its.sent_hello)) {
    its.known = false;
    its.why = "job secret mismatch";
  }
}

/// Sends the resulting status to a peer whose hello is known.
template <class Socket>
asio::awaitable<void> basic_handshake_server<Socket>::send_status(Socket& incoming,
                                                                  handshake_state& its) {
  handshake_status& answer = its.answer.answer;
  const bool proven = local_hello_.keyed && answer == handshake_status::accepted;
  if (answer == handshake_status::accepted) answer = check_hello_(its.remote.fields);
  if (proven) {
    const step what = answer == handshake_status::accepted ? step::accepted : step::crossed;
    const proof last = prove(what, key_, its.remote.wire, its.sent_hello);
    co_await send(incoming, last);
  } else {
    encode(its.answer, its.sent_hello);
    co_await send(incoming, its.sent_hello);
  }
}

template <class Socket>
asio::awaitable<void> basic_handshake_server<Socket>::handshake(std::shared_ptr<Socket> incoming,
                                                                bool refuses) {
  Socket& socket = *incoming;
  const std::string who = describe_peer(socket);
  handshake_state its;
  try {
    co_await with_deadline(handshake_timeout, authenticate(socket, its, refuses),
                           "hello of " + who);
  } catch (const std::exception& e) {
    its.known = false;
    its.why = describe(e);
  }
  const bool was_dropped = std::erase(unauthenticated_, incoming) == 0;
  if (closed_ || was_dropped) co_return;
  if (!its.known) {
    count_rejected("hello", who, its.why);
    co_return;
  }
  configure(socket, options_);
  co_await send_status(socket, its);
  const hello& remote = its.remote.fields;
  if (its.answer.answer == handshake_status::accepted) {
    if (closed_) co_return;
    sealed::keys seal;
    if (local_hello_.sealed) {
      seal = sealed::derive_keys(key_, its.remote.wire, its.sent_hello, sealed::side::listener);
    }
    on_peer_(std::move(socket), std::move(seal), its.answer, remote);
  } else if (its.answer.answer != handshake_status::crossed &&
             its.answer.answer != handshake_status::no_descriptors) {
    count_rejected("refused", who, refusal(its.answer, remote, "this rank").what());
  }
}

template <class Socket>
void basic_handshake_server<Socket>::count_rejected(std::string_view kind, const std::string& who,
                                                    const std::string& why) {
  ++rejected_connections_;
  dropped_.add(kind, fmt::format("dropped {}: {}", who, why), std::chrono::steady_clock::now());
}

}  // namespace tandem::transport
