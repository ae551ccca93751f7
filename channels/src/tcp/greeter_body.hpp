#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <tandem/deadline.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/quiet.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "tcp/greeter.hpp"

namespace tandem::tcp {

template <class Socket>
basic_greeter<Socket>::basic_greeter(acceptor at, hello mine, secret key, settings options,
                                     judge_handler check, guest_handler on_guest)
    : acceptor_(std::move(at)),
      mine_(mine),
      key_(std::move(key)),
      options_(std::move(options)),
      judge_(std::move(check)),
      on_guest_(std::move(on_guest)),
      at_(acceptor_.local_endpoint()) {
  mine_.keyed = !key_.empty();
  mine_.sealed = options_.encrypt && may_be_sealed<Socket>;
}

template <class Socket>
void basic_greeter<Socket>::run() {
  asio::co_spawn(acceptor_.get_executor(), accept_loop(),
                 [self = this->shared_from_this()](auto...) {});
}

template <class Socket>
void basic_greeter<Socket>::close() noexcept {
  closed_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  for (const auto& unknown : unknown_) unknown->close(ignored);
}

template <class Socket>
asio::awaitable<void> basic_greeter<Socket>::accept_loop() {
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
      lacking_since_.reset();
      spare_.take();
    }
    auto guest = std::make_shared<Socket>(std::move(socket));
    make_room();
    unknown_.push_back(guest);
    asio::co_spawn(acceptor_.get_executor(), greet(std::move(guest), refuses),
                   [self = this->shared_from_this(), refuses](auto...) {
                     if (refuses) self->spare_.take();
                   });
    refuses = false;
  }
}

/// Descriptors may be exhausted for a moment, until crossed connections have ended. If that lasts,
/// each peer is accepted with the spare descriptor and refused with the reason.
template <class Socket>
bool basic_greeter<Socket>::may_refuse_next(const error_code& failure) {
  const auto now = std::chrono::steady_clock::now();
  dropped_.add("accept",
               "cannot accept connections: " +
                   detail::failure_text(failure.value(), detail::resource::descriptor),
               now);
  if (!detail::is_exhausted(failure, detail::resource::descriptor)) return false;
  if (!lacking_since_) lacking_since_ = now;
  return now - *lacking_since_ >= longest_lack && spare_.give();
}

/// A rank of the job sends its hello at once, so the connection that has been silent longest goes.
template <class Socket>
void basic_greeter<Socket>::make_room() {
  if (unknown_.size() < most_unknown) return;
  error_code ignored;
  Socket& oldest = *unknown_.front();
  count_stranger(
      "crowd", describe_guest(oldest),
      fmt::format("no hello from it, and {} newer connections are waiting", most_unknown));
  oldest.close(ignored);
  unknown_.pop_front();
}

/// Reads the peer's hello and, with a key, exchanges proofs.
template <class Socket>
asio::awaitable<void> basic_greeter<Socket>::hear(Socket& guest, introduction& its, bool refuses) {
  its.known = co_await read_hello(guest, its.theirs, its.why);
  if (!its.known) co_return;
  const hello& theirs = its.theirs.says;
  its.answer = mine_;
  its.answer.to = theirs.from;
  its.answer.answer = judge(theirs, mine_);
  if constexpr (requires { guest.lost_memory; }) refuses = refuses || guest.lost_memory;
  if (refuses && its.answer.answer == verdict::welcome) its.answer.answer = verdict::no_descriptors;
  if (!mine_.keyed || its.answer.answer != verdict::welcome) co_return;
  trust::random_bytes(its.answer.once);
  encode(its.answer, its.said);
  std::array<std::byte, hello_bytes + trust::digest_bytes> message;
  const proof ours = prove(step::listener, key_, its.theirs.wire, its.said);
  std::copy(its.said.begin(), its.said.end(), message.begin());
  std::copy(ours.begin(), ours.end(), message.begin() + hello_bytes);
  co_await send(guest, message);
  proof given;
  its.known = co_await read_proof(guest, given, its.why);
  if (!its.known) {
    its.why = "it closed the connection without a proof: is its job secret different?";
  } else if (!is_proof(given, step::connector, key_, its.theirs.wire, its.said)) {
    its.known = false;
    its.why = "job secret mismatch";
  }
}

/// Sends the resulting status to a peer whose hello is known.
template <class Socket>
asio::awaitable<void> basic_greeter<Socket>::decide(Socket& guest, introduction& its) {
  verdict& answer = its.answer.answer;
  const bool proven = mine_.keyed && answer == verdict::welcome;
  if (answer == verdict::welcome) answer = judge_(its.theirs.says);
  if (proven) {
    const step what = answer == verdict::welcome ? step::welcome : step::crossed;
    const proof last = prove(what, key_, its.theirs.wire, its.said);
    co_await send(guest, last);
  } else {
    encode(its.answer, its.said);
    co_await send(guest, its.said);
  }
}

template <class Socket>
asio::awaitable<void> basic_greeter<Socket>::greet(std::shared_ptr<Socket> guest, bool refuses) {
  Socket& socket = *guest;
  const std::string who = describe_guest(socket);
  introduction its;
  try {
    co_await with_deadline(hello_limit, hear(socket, its, refuses), "hello of " + who);
  } catch (const std::exception& e) {
    its.known = false;
    its.why = describe(e);
  }
  const bool was_dropped = std::erase(unknown_, guest) == 0;
  if (closed_ || was_dropped) co_return;
  if (!its.known) {
    count_stranger("hello", who, its.why);
    co_return;
  }
  configure(socket, options_);
  co_await decide(socket, its);
  const hello& theirs = its.theirs.says;
  if (its.answer.answer == verdict::welcome) {
    if (closed_) co_return;
    sealed::keys seal;
    if (mine_.sealed) {
      seal = sealed::derive_keys(key_, its.theirs.wire, its.said, sealed::side::listener);
    }
    on_guest_(std::move(socket), std::move(seal), its.answer, theirs);
  } else if (its.answer.answer != verdict::crossed &&
             its.answer.answer != verdict::no_descriptors) {
    count_stranger("refused", who, refusal(its.answer, theirs, "this rank").what());
  }
}

template <class Socket>
void basic_greeter<Socket>::count_stranger(std::string_view kind, const std::string& who,
                                           const std::string& why) {
  ++strangers_;
  dropped_.add(kind, fmt::format("dropped {}: {}", who, why), std::chrono::steady_clock::now());
}

}  // namespace tandem::tcp
