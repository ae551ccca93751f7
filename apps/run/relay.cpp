#include "relay.hpp"

#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

namespace tandem::launcher {
namespace {

constexpr std::chrono::seconds drain_limit{1};

}  // namespace

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

std::string output_relay::last_lines(std::size_t stream) const {
  return streams_[stream]->last_output.text();
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
    from.last_output.feed(bytes);
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
  if (abandoned_ || closed_targets_.contains(target)) co_return;
  const int failed = co_await writer_of(target).write(std::move(text));
  if (failed != 0) record_loss(target, failed);
}

output_writer& output_relay::writer_of(int target) {
  std::shared_ptr<output_writer>& found = writers_[target];
  for (const auto& [other, writer] : writers_) {
    if (!found && writer && writer->same_file_as(target)) found = writer;
  }
  if (!found) found = std::make_shared<output_writer>(target);
  return *found;
}

void output_relay::record_loss(int target, int number) {
  // After a hang-up, isatty fails with EIO as well.
  const bool no_terminal = number == EIO && ::isatty(target) == 0 && errno == EIO;
  const bool stops = number == EPIPE && closing_stops_;
  std::map<int, int>& known = stops || no_terminal ? closed_targets_ : failed_targets_;
  const bool first = known.emplace(target, number).second;
  if (first && !no_terminal && loss_handler_) loss_handler_(target, number);
}

void output_relay::abandon() {
  abandoned_ = true;
  for (const auto& [target, writer] : writers_) writer->abandon();
}

void output_relay::resume() {
  abandoned_ = false;
  for (const auto& [target, writer] : writers_) writer->resume();
}

}  // namespace tandem::launcher
