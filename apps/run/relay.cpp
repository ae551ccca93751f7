#include "relay.hpp"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <thread>

namespace tandem::launcher {
namespace {

constexpr std::chrono::seconds drain_limit{1};

}  // namespace

output_relay::~output_relay() {
  abandon();
  writer_.join();
}

std::size_t output_relay::add(owned_fd from, int target, std::string prefix) {
  streams_.push_back(std::make_unique<stream>(loop_, std::move(from), target, std::move(prefix)));
  return streams_.size() - 1;
}

void output_relay::start() {
  open_streams_ = streams_.size();
  for (const std::unique_ptr<stream>& one : streams_) {
    asio::co_spawn(loop_, relay(*one), asio::detached);
  }
}

std::string output_relay::last_words(std::size_t stream) const {
  return streams_[stream]->words.text();
}

asio::awaitable<void> output_relay::relay(stream& from) {
  bool open = true;
  while (open) {
    boost::system::error_code failed;
    std::size_t count = 0;
    if (closing_) {
      from.pipe.non_blocking(true);
      count = from.pipe.read_some(asio::buffer(from.bytes), failed);
    } else {
      const auto [ended, got] =
          co_await from.pipe.async_read_some(asio::buffer(from.bytes), no_throw);
      failed = ended;
      count = got;
    }
    open = !failed;
    const std::string_view bytes(from.bytes.data(), count);
    from.words.feed(bytes);
    std::string text(bytes);
    if (from.prefixed) text = from.lines.feed(bytes);
    if (from.prefixed && !open) text += from.lines.finish();
    if (!text.empty()) co_await print(from.target, std::move(text));
  }
  if (--open_streams_ == 0) drained_.cancel();
}

asio::awaitable<void> output_relay::drain() {
  drained_.expires_after(drain_limit);
  if (open_streams_ > 0) co_await drained_.async_wait(no_throw);
  closing_ = true;
  for (const std::unique_ptr<stream>& one : streams_) one->pipe.cancel();
  drained_.expires_at(asio::steady_timer::time_point::max());
  if (open_streams_ > 0) co_await drained_.async_wait(no_throw);
}

asio::awaitable<void> output_relay::print(int target, std::string text) {
  if (abandoned_ || gone_.contains(target)) co_return;
  const auto start = [this](auto handler, int to, std::string what) {
    auto back = asio::get_associated_executor(handler);
    auto work = asio::make_work_guard(back);
    asio::post(writer_, [this, handler = std::move(handler), work = std::move(work), to,
                         what = std::move(what)]() mutable {
      const int failed = write_all(to, what);
      asio::post(work.get_executor(),
                 [handler = std::move(handler), failed]() mutable { handler(failed); });
    });
  };
  const int failed = co_await asio::async_initiate<const asio::use_awaitable_t<>, void(int)>(
      start, asio::use_awaitable, target, std::move(text));
  if (failed != 0) note(target, failed);
}

/// 0, or errno. On the writer's thread.
int output_relay::write_all(int target, std::string_view bytes) noexcept {
  writer_thread_ = ::pthread_self();
  writing_ = true;
  int failed = 0;
  while (!bytes.empty() && failed == 0 && !abandoned_) {
    const ssize_t written = ::write(target, bytes.data(), bytes.size());
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    if (written >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) failed = errno;
    // Whoever shares the descriptor made it non-blocking.
    pollfd ready{target, POLLOUT, 0};
    if (failed == 0) ::poll(&ready, 1, 100);
  }
  writing_ = false;
  return failed;
}

void output_relay::note(int target, int number) {
  // A terminal that is gone does not even say that it is one.
  const bool no_terminal = number == EIO && ::isatty(target) == 0 && errno == EIO;
  if (number == EPIPE || no_terminal) {
    gone_[target] = number;
    return;
  }
  if (lost_.emplace(target, number).second && lost_handler_) lost_handler_(target, number);
}

void output_relay::abandon() {
  abandoned_ = true;
  // Interrupts a write that blocks; again, for it may have come between the check and the write.
  while (writing_) {
    ::pthread_kill(writer_thread_, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace tandem::launcher
