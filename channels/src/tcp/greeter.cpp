#include "tcp/greeter.hpp"

#include <fmt/format.h>

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

asio::awaitable<void> read_into(asio::ip::tcp::socket& from, hello& theirs, std::string& why,
                                bool& known) {
  known = co_await read_hello(from, theirs, why);
}

}  // namespace

greeter::greeter(asio::ip::tcp::acceptor at, hello mine, settings options, judge_handler judge,
                 guest_handler on_guest)
    : acceptor_(std::move(at)),
      mine_(mine),
      options_(std::move(options)),
      judge_(std::move(judge)),
      on_guest_(std::move(on_guest)),
      port_(acceptor_.local_endpoint().port()) {}

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
  count_stranger(to_text(oldest.remote_endpoint(ignored)),
                 fmt::format("{} others came after it without a word from it", most_unknown));
  oldest.close(ignored);
  unknown_.pop_front();
}

asio::awaitable<void> greeter::greet(std::shared_ptr<asio::ip::tcp::socket> guest) {
  asio::ip::tcp::socket& socket = *guest;
  error_code ignored;
  const std::string who = to_text(socket.remote_endpoint(ignored));
  hello theirs;
  std::string why;
  bool known = false;
  try {
    co_await with_deadline(hello_limit, read_into(socket, theirs, why, known), "hello of " + who);
  } catch (const std::exception& e) {
    why = e.what();
  }
  const bool was_dropped = std::erase(unknown_, guest) == 0;
  if (closed_ || was_dropped) co_return;
  if (!known) {
    count_stranger(who, why);
    co_return;
  }
  hello answer = mine_;
  answer.to = theirs.from;
  answer.answer = judge(theirs, mine_);
  if (answer.answer == verdict::welcome) answer.answer = judge_(theirs);
  configure(socket, options_);
  co_await send_hello(socket, answer);
  if (answer.answer == verdict::welcome) {
    if (closed_) co_return;
    std::shared_ptr<link> made = make_link(std::move(socket), answer, theirs, options_);
    on_guest_(std::move(made), theirs);
  } else if (answer.answer != verdict::crossed) {
    count_stranger(who, refusal(answer, theirs, "this rank").what());
  }
}

void greeter::count_stranger(const std::string& who, const std::string& why) {
  ++strangers_;
  log(log_level::warning, "tcp", fmt::format("dropped {}: {}", who, why));
}

}  // namespace tandem::tcp
