#include "tcp/greeter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/deadline.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::tcp {
namespace {

constexpr auto quiet = asio::as_tuple(asio::use_awaitable);

}  // namespace

greeter::greeter(asio::ip::tcp::acceptor at, hello mine, secret key, settings options,
                 judge_handler judge, guest_handler on_guest)
    : acceptor_(std::move(at)),
      mine_(mine),
      key_(std::move(key)),
      options_(std::move(options)),
      judge_(std::move(judge)),
      on_guest_(std::move(on_guest)),
      port_(acceptor_.local_endpoint().port()) {
  mine_.keyed = !key_.empty();
  mine_.sealed = options_.encrypt;
}

void greeter::run() {
  asio::co_spawn(acceptor_.get_executor(), accept_loop(), [self = shared_from_this()](auto...) {});
}

void greeter::close() noexcept {
  closed_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  for (const auto& unknown : unknown_) unknown->close(ignored);
}

asio::awaitable<void> greeter::accept_loop() {
  asio::steady_timer pause(acceptor_.get_executor());
  while (!closed_) {
    auto [failure, socket] = co_await acceptor_.async_accept(quiet);
    if (closed_) break;
    if (failure) {
      // Out of descriptors, most likely: trying again at once would only burn the processor.
      log(log_level::warning, "tcp", "accept failed: " + failure.message());
      pause.expires_after(std::chrono::milliseconds(50));
      co_await pause.async_wait(quiet);
      continue;
    }
    const auto guest = std::make_shared<asio::ip::tcp::socket>(std::move(socket));
    make_room();
    unknown_.push_back(guest);
    asio::co_spawn(acceptor_.get_executor(), greet(guest), [self = shared_from_this()](auto...) {});
  }
}

/// A rank of ours speaks at once, so the one that has been silent longest goes.
void greeter::make_room() {
  if (unknown_.size() < most_unknown) return;
  error_code ignored;
  asio::ip::tcp::socket& oldest = *unknown_.front();
  count_stranger("crowd", to_text(oldest.remote_endpoint(ignored)),
                 fmt::format("{} others came after it without a word from it", most_unknown));
  oldest.close(ignored);
  unknown_.pop_front();
}

/// Until the guest has said who he is and, with a key, proven it.
asio::awaitable<void> greeter::hear(asio::ip::tcp::socket& guest, introduction& its) {
  its.known = co_await read_hello(guest, its.theirs, its.why);
  if (!its.known) co_return;
  const hello& theirs = its.theirs.says;
  its.answer = mine_;
  its.answer.to = theirs.from;
  its.answer.answer = judge(theirs, mine_);
  if (!mine_.keyed || its.answer.answer != verdict::welcome) co_return;
  trust::random_bytes(its.answer.once);
  encode(its.answer, its.said);
  std::array<std::byte, hello_bytes + trust::digest_bytes> words;
  const proof ours = prove(step::listener, key_, its.theirs.wire, its.said);
  std::copy(its.said.begin(), its.said.end(), words.begin());
  std::copy(ours.begin(), ours.end(), words.begin() + hello_bytes);
  co_await send(guest, words);
  proof given;
  its.known = co_await read_proof(guest, given, its.why);
  if (!its.known) {
    its.why = "it left in place of a proof: does it have another secret?";
  } else if (!is_proof(given, step::connector, key_, its.theirs.wire, its.said)) {
    its.known = false;
    its.why = "its secret is another one";
  }
}

/// Tells the guest, whose words are known by now, what becomes of him.
asio::awaitable<void> greeter::decide(asio::ip::tcp::socket& guest, introduction& its) {
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

asio::awaitable<void> greeter::greet(std::shared_ptr<asio::ip::tcp::socket> guest) {
  asio::ip::tcp::socket& socket = *guest;
  error_code ignored;
  const std::string who = to_text(socket.remote_endpoint(ignored));
  introduction its;
  try {
    co_await with_deadline(hello_limit, hear(socket, its), "hello of " + who);
  } catch (const std::exception& e) {
    its.known = false;
    its.why = e.what();
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
    sealed::connection made(std::move(socket), std::move(seal));
    on_guest_(std::move(made), its.answer, theirs);
  } else if (its.answer.answer != verdict::crossed) {
    count_stranger("refused", who, refusal(its.answer, theirs, "this rank").what());
  }
}

void greeter::count_stranger(std::string_view kind, const std::string& who,
                             const std::string& why) {
  ++strangers_;
  dropped_.add(kind, fmt::format("dropped {}: {}", who, why), std::chrono::steady_clock::now());
}

}  // namespace tandem::tcp
