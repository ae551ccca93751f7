#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <tandem/stream_messages.hpp>
#include <utility>

#include "islands/peer_watch.hpp"
#include "streams/messages_about_streams.hpp"
#include "streams/stream_lane.hpp"

namespace tandem {
namespace {

using detail::group;

/// How often a call looks for a free slot, while all are in use.
constexpr std::chrono::microseconds slot_interval{50};

// Between two processes of one program on one host, as plain bytes.

/// What the ranks tell each other when they begin.
struct beginning {
  memory_location words{};  ///< zero: there is a reason against it
  memory_kind kind = memory_kind::host;
};

/// Of a receive, to the sender.
struct posted_view {
  memory_location where{};  ///< zero: an ordinary message
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;
};

/// Of a send, to a receive that is queued.
struct answer_to_view {
  std::uint64_t bytes = 0;
  std::uint64_t is_queued = 0;
};

enum class tag : std::uint16_t { beginning, posted_view, answer };

template <class Message>
asio::awaitable<void> post(std::shared_ptr<group> over, int to, Message what, tag which) {
  return detail::post_about_streams(std::move(over), to, what, static_cast<std::uint16_t>(which));
}

template <class Message>
asio::awaitable<Message> take(std::shared_ptr<group> over, int from, tag which) {
  return detail::take_about_streams<Message>(std::move(over), from,
                                             static_cast<std::uint16_t>(which));
}

channel* channel_to(const group& over, int peer) {
  return over.to(peer).on;
}

}  // namespace

stream_messages::stream_messages(communicator& over, int peer, accelerator& of)
    : over_(over.internals()), peer_(peer), device_(of) {}

stream_messages::~stream_messages() = default;

asio::awaitable<stream_messages::made> stream_messages::make(communicator& over, int peer,
                                                             accelerator& of, shared_words words,
                                                             failure_handler what) {
  std::unique_ptr<stream_messages> result(new stream_messages(over, peer, of));
  const std::shared_ptr<group> in = result->over_;
  beginning mine{.kind = of.kind()};
  std::string why_not;
  if (!of.facts().has_stream_memory_ops) {
    why_not = of.text() + ": its streams cannot wait for memory";
  } else {
    mine.words = in->over().locate_memory(words.memory);
    if (mine.words == memory_location{}) why_not = "the ranks share no memory";
  }
  co_await post(in, peer, mine, tag::beginning);
  const auto theirs = co_await take<beginning>(in, peer, tag::beginning);
  if (why_not.empty() && theirs.kind != mine.kind) why_not = "devices of two vendors";
  if (why_not.empty() && theirs.words == memory_location{}) why_not = "the other rank cannot";
  if (why_not.empty()) {
    try {
      std::shared_ptr<const mapped_memory> other =
          in->over().map_memory(in->member(peer), theirs.words, words_bytes);
      if (!other) throw error(errc::unsupported_memory, "the ranks share no memory");
      void* const there = other->view().data;
      result->sends_ = std::make_unique<detail::stream_lane>(
          of, true, std::make_unique<detail::stream_words>(of, there, std::move(other)));
      result->receives_ = std::make_unique<detail::stream_lane>(
          of, false,
          std::make_unique<detail::stream_words>(of, words.memory.data, std::move(words.owner)));
    } catch (const error& why) {
      why_not = why.what();
    }
  }
  const std::uint8_t can = why_not.empty() ? 1 : 0;
  co_await post(in, peer, can, tag::beginning);
  const auto they_can = co_await take<std::uint8_t>(in, peer, tag::beginning);
  if (why_not.empty() && they_can == 0) why_not = "the other rank cannot";
  made outcome;
  outcome.why_not = std::move(why_not);
  if (outcome.why_not.empty()) {
    result->watch_ = std::make_unique<detail::peer_watch>(*in, peer, std::move(what));
    outcome.messages = std::move(result);
  }
  co_return outcome;
}

accelerator::stream stream_messages::sends() const noexcept {
  return sends_->stream();
}

accelerator::stream stream_messages::receives() const noexcept {
  return receives_->stream();
}

asio::awaitable<void> stream_messages::wait_for_room(detail::stream_lane& in) {
  while (!aborted_ && !in.has_room()) {
    asio::steady_timer later(over_->executor(), slot_interval);
    co_await later.async_wait(asio::use_awaitable);
  }
  throw_if_aborted();
}

asio::awaitable<bool> stream_messages::send(const_view message) {
  const auto theirs = co_await take<posted_view>(over_, peer_, tag::posted_view);
  throw_if_aborted();
  if (theirs.where == memory_location{}) co_return false;
  const bool is_here = message.kind == device_.kind() && message.device == device_.device();
  answer_to_view mine{.bytes = message.bytes};
  std::unique_ptr<const mapped_memory> into;
  if (is_here && message.bytes > 0 && message.bytes <= theirs.bytes) {
    into = channel_to(*over_, peer_)->map_memory(theirs.where, message.bytes, device_);
  }
  // One that does not fit is dropped: its receive fails.
  const bool is_written = into || message.bytes == 0;
  if (is_written) {
    co_await wait_for_room(*sends_);
    const auto number = static_cast<std::uint32_t>(theirs.number);
    sends_->queue_send(number, message, std::move(into));
  }
  mine.is_queued = is_written || message.bytes > theirs.bytes ? 1 : 0;
  co_await post(over_, peer_, mine, tag::answer);
  co_return mine.is_queued != 0;
}

asio::awaitable<std::uint32_t> stream_messages::recv(mutable_view into) {
  posted_view mine{.bytes = into.bytes, .number = receives_->next_number()};
  const bool is_here = into.kind == device_.kind() && into.device == device_.device();
  if (is_here && into.bytes > 0) {
    co_await wait_for_room(*receives_);
    mine.where = channel_to(*over_, peer_)->locate_memory(into);
  }
  co_await post(over_, peer_, mine, tag::posted_view);
  throw_if_aborted();
  if (mine.where == memory_location{}) co_return 0;
  receives_->queue_receive();
  co_return static_cast<std::uint32_t>(mine.number);
}

asio::awaitable<stream_messages::outcome> stream_messages::answer() {
  const auto theirs = co_await take<answer_to_view>(over_, peer_, tag::answer);
  throw_if_aborted();
  co_return outcome{theirs.is_queued != 0, static_cast<std::size_t>(theirs.bytes)};
}

void stream_messages::release(std::uint32_t number) noexcept {
  receives_->release(number);
}

void stream_messages::throw_if_aborted() const {
  if (aborted_) throw error(*aborted_);
}

void stream_messages::abort(const error& why) noexcept {
  if (!aborted_) aborted_ = std::make_shared<const error>(why);
  sends_->release_all();
  receives_->release_all();
}

}  // namespace tandem
